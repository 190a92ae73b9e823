"""Requests on their way to servers: so many at once, each made until it is answered."""

import asyncio
import os
from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from stages.profile.endpoint.client import Client, Failure, Refusal
from stages.profile.endpoint.counting import Counting, Tokenizer, finish_reason
from stages.profile.endpoint.fleet import Fleet, Server, ServerFailure, Timing
from stages.profile.endpoint.judgement import Judgement
from stages.profile.endpoint.settings import EndpointSettings
from stages.profile.endpoint.tries import Tries, failure_of
from stages.profile.endpoint.wire import PLAIN_SAMPLING, Reply, Wire
from stages.profile.engine import Answer, News, OnTokens, Request, Unanswered
from stages.tables.errors import first_few, log


class Asking:
    """Requests, the workers that make them, and what has come back."""

    def __init__(
        self,
        requests: Iterable[Request],
        wire: Wire,
        settings: EndpointSettings,
        tokenizer: Tokenizer | None,
        seed: int,
        on_tokens: OnTokens,
    ) -> None:
        self._unasked = _Unasked(requests)
        self._wire = wire
        self._settings = settings
        self._seed = seed
        self._on_tokens = on_tokens
        self._samples_per_request = settings.samples_per_request
        cap = wire.sampling.max_response_tokens
        self._counting = Counting(cap, tokenizer)
        self._judgement = Judgement(wire.model, wire.sampling.temperature, cap)
        key = os.environ.get(settings.key_variable)
        self._clients = [Client(url, key, settings.request_timeout_s) for url in settings.urls]
        self._workers: list[asyncio.Task[None]] = []
        self._finished: list[tuple[Request, Answer | None]] = []
        self._news = asyncio.Event()
        self._refused: list[tuple[Request, Refusal]] = []
        self._given_up: list[tuple[Request, ServerFailure]] = []
        self._num_repeated = 0

    async def start(self) -> None:
        """See which servers serve the model, and begin to ask them.

        Raises:
            Unanswered: None can be reached, or one does not serve the model.
        """
        checked = await asyncio.gather(*map(self._checked, self._clients))
        servers = [server for server in checked if isinstance(server, Server)]
        unreachable = [words for words in checked if isinstance(words, str)]
        if not servers:
            raise Unanswered(f"{'; '.join(unreachable)}; start the server, or mend the address")
        for words in unreachable:
            log.warning("%s; its requests go to the others", words)
        self._fleet = Fleet(servers, self._settings.patience)
        num_workers = self._settings.concurrency
        self._workers = [asyncio.create_task(self._ask_on()) for _ in range(num_workers)]
        self._all_work = asyncio.gather(*self._workers)
        self._all_work.add_done_callback(lambda _: self._news.set())

    async def news(self) -> News:
        """What was finished since; nothing when all is.

        Raises:
            Unanswered: Not all can be had; what is finished was taken before.
        """
        await self._news.wait()
        self._news.clear()
        if self._finished:
            if self._all_work.done():
                self._news.set()
            return self.take()
        await self._all_work
        self._judgement.end()
        self._tell_end()
        return ()

    def take(self) -> News:
        """What was finished since, without waiting."""
        finished, self._finished = self._finished, []
        return finished

    async def stop(self) -> None:
        """Break off what is under way."""
        for worker in self._workers:
            worker.cancel()
        if self._workers:
            await asyncio.gather(*self._workers, self._all_work, return_exceptions=True)
        for client in self._clients:
            await client.aclose()

    async def _checked(self, client: Client) -> Server | str:
        """The server, or why it cannot be asked."""
        try:
            listed = await client.models()
        except Failure as failure:
            return f"--endpoint {client.name}: {failure}"
        mine = next((model for model in listed if model.get("id") == self._wire.model), None)
        if listed and mine is None:
            names = first_few(model.get("id") for model in listed)
            raise Unanswered(
                f"--endpoint {client.name}: serves {names}, not --model {self._wire.model}; give "
                "a name that it serves"
            )
        return Server(client, PLAIN_SAMPLING.get(str(mine and mine.get("owned_by")), {}))

    async def _ask_on(self) -> None:
        """A worker: ask for one thing after another, until all is asked for."""
        while asked := self._unasked.take(self._samples_per_request):
            try:
                reply, timing = await self._reply(asked)
            except Refusal as refusal:
                self._refused += [(request, refusal) for request in asked]
                self._finished += [(request, None) for request in asked]
                self._news.set()
            except ServerFailure as failure:
                self._given_up += [(request, failure) for request in asked]
            else:
                self._finish(asked, reply, timing)

    async def _reply(self, asked: Sequence[Request]) -> tuple[Reply, Timing]:
        prompt, seed = asked[0].prompt, self._request_seed(asked[0])
        tries = Tries(self._settings.patience)
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(ServerFailure),
            wait=tries.wait,
            stop=tries.are_over,
            before_sleep=self._note_failure,
            reraise=True,
        ):
            with attempt:
                return await self._fleet.post(
                    self._wire.path,
                    len(asked),
                    lambda server: self._wire.body(prompt, len(asked), server.extras, seed),
                    self._wire.read,
                )
        raise AssertionError("it answers or raises")

    def _note_failure(self, state: RetryCallState) -> None:
        assert state.next_action is not None, "it is called before a wait"
        self._num_repeated += 1
        self._fleet.rest(failure_of(state), state.next_action.sleep)

    def _request_seed(self, request: Request) -> int | None:
        if not self._settings.sends_seeds:
            return None
        drawn = np.random.SeedSequence([self._seed, *request.key]).generate_state(1)
        return int(drawn[0]) // 2  # some servers take it for a signed number of 32 bits

    def _finish(self, asked: Sequence[Request], reply: Reply, timing: Timing) -> None:
        """Make answers of a reply; what it lacks is asked for again, by itself."""
        tokens, tokens_from = self._counting.count(reply)
        longest = max(tokens[: len(asked)])
        answers = [
            Answer(
                response_tokens=count,
                finish_reason=finish_reason(choice.finish_reason, count, self._counting.cap),
                prompt_tokens=reply.prompt_tokens,
                latency_s=timing.latency_s if count == longest else None,
                concurrency=timing.concurrency,
                tokens_from=tokens_from,
            )
            for choice, count in zip(reply.choices, tokens, strict=True)
        ][: len(asked)]
        self._judgement.add(asked, reply, answers)
        self._on_tokens(sum(answer.response_tokens for answer in answers))
        if missing := asked[len(answers) :]:
            self._samples_per_request = 1
            self._unasked.put_back(missing)
        self._finished += zip(asked, answers, strict=False)
        self._news.set()

    def _tell_end(self) -> None:
        """Say what was repeated or refused.

        Raises:
            Unanswered: Requests were given up.
        """
        if self._num_repeated:
            log.info("%d tries failed and were made again", self._num_repeated)
        if self._refused:
            ids = dict.fromkeys(request.prompt_id for request, _ in self._refused)
            log.warning(
                "the server refuses %d prompts, which are left out (prompt_id %s): %s",
                len(ids), first_few(ids), self._refused[0][1],
            )  # fmt: skip
        if self._given_up:
            ids = dict.fromkeys(request.prompt_id for request, _ in self._given_up)
            failure = self._given_up[-1][1]
            way_out = ""
            if failure.kind == "timeout":
                way_out = "; give a longer --request-timeout, or less --concurrency"
            raise Unanswered(
                f"{len(self._given_up)} responses failed at every try (prompt_id "
                f"{first_few(ids)}), while others were answered: {failure}{way_out}"
            )


class _Unasked:
    """Requests that no worker has taken."""

    def __init__(self, requests: Iterable[Request]) -> None:
        self._further = iter(requests)
        self._first: deque[Request] = deque()  # before the further ones

    def take(self, most: int) -> list[Request]:
        """The next one, with up to `most` of its prompt; none when all were taken."""
        taken: list[Request] = []
        while len(taken) < most:
            request = self._first.popleft() if self._first else next(self._further, None)
            if request is None:
                break
            if taken and request.prompt_id != taken[0].prompt_id:
                self._first.appendleft(request)
                break
            taken.append(request)
        return taken

    def put_back(self, requests: Sequence[Request]) -> None:
        """They are to be asked next."""
        self._first.extendleft(reversed(requests))
