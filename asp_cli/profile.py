"""`asp profile`: the lengths of the target model's responses."""

import math
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import typer

from asp_cli.options import (
    DomainColumn,
    Force,
    Output,
    PromptColumn,
    Quiet,
    Seed,
    finite,
    within_64_bits,
)
from asp_cli.refusals import refuse_shared_stdio, refuse_stdio_directory, refuse_useless
from stages.profile.endpoint.settings import DEFAULT_KEY_VARIABLE
from stages.profile.logs import Format


def _servers(urls: list[str] | None) -> list[str] | None:
    """Exit 2 where an address is none, or holds what must not be written down."""
    for url in urls or ():
        wrong = typer.BadParameter(f"--endpoint {url}: is not http://HOST:PORT or https://...")
        try:
            parts = urlsplit(url)
            _ = parts.port  # raises where it is no number that a port can have
        except ValueError:
            raise wrong from None
        if parts.password or parts.username:
            raise typer.BadParameter(
                "--endpoint: leave the password out, which others can read in the command; "
                "a key is taken from the environment (--api-key-variable)"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise wrong
    return urls or None


def _column(field: str, default: str) -> Any:
    """The flag that names one column of the recorded responses."""
    return typer.Option(
        f"--rollouts-{field}-column",
        metavar="NAME",
        help=f"Column with {default}.",
        show_default=False,
    )


def command(
    prompts: Annotated[
        str, typer.Argument(help="Prompts, Parquet or JSONL; `-` is standard input.")
    ],
    output: Output,
    rollouts: Annotated[
        str | None,
        typer.Option(
            help="Recorded responses: a file, or a directory with a trainer's log, such as the "
            "rollout_data_dir of verl (see --from); `-` is standard input.",
            metavar="PATH",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model to ask on this machine: a directory or a hub name. With --endpoint: its "
            "name there.",
            metavar="DIR_OR_NAME",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        Literal["transformers", "vllm"] | None,
        typer.Option(
            show_default=False,
            help="What runs --model on this machine. Default: transformers; vllm has to be "
            "installed.",
        ),
    ] = None,
    endpoint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            callback=_servers,
            show_default=False,
            help="Server with an OpenAI-compatible API that serves --model, such as "
            "http://localhost:8000; several times for several of them. An API key is taken from "
            "the environment.",
        ),
    ] = None,
    num_prompts: Annotated[
        int | None,
        typer.Option(
            min=1,
            callback=within_64_bits,
            metavar="N",
            show_default=False,
            help="Profile at most N prompts, a sample stratified by domain and length. Default: "
            "all.",
        ),
    ] = None,
    max_profile_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            callback=within_64_bits,
            metavar="N",
            show_default=False,
            help="Ask --model for no more responses once it has made N tokens. Default: no limit.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Ask --model for the first responses only, say what the rest will cost, and keep "
            "them in OUTPUT.journal for the run itself.",
        ),
    ] = False,
    rollouts_per_prompt: Annotated[
        int | None,
        typer.Option(
            "--rollouts-per-prompt",
            "--samples-per-prompt",
            min=1,
            callback=within_64_bits,
            metavar="N",
            show_default=False,
            help="Responses a prompt: that many of --model (default: 1, or 2 where every prompt of "
            "the file is asked, and 8 of 64 prompts, which show how much is chance), at most that "
            "many of --rollouts (default: all).",
        ),
    ] = None,
    max_response_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            callback=within_64_bits,
            metavar="N",
            show_default=False,
            help="The cap of a response. Of --model: default 2048. Of --rollouts: where the file "
            "names none; responses at or over it count as `length`.",
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            min=0,
            show_default=False,
            help="Sampling temperature, 0 for greedy. Of --model: default 1.0. Of --rollouts: "
            "where the file names none.",
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            callback=within_64_bits,
            show_default=False,
            help="Responses that --model generates together on this machine. Default: 16; of "
            "vllm 256.",
        ),
    ] = None,
    requests_at_once: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            min=1,
            max=4096,
            metavar="N",
            show_default=False,
            help="Requests in flight at once, over all --endpoint. Default: 64.",
        ),
    ] = None,
    request_timeout: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            callback=finite,
            metavar="SECONDS",
            show_default=False,
            help="Seconds after which a request to an --endpoint is made again. Default: 600.",
        ),
    ] = None,
    samples_per_request: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=4096,
            metavar="N",
            show_default=False,
            help="Responses that one request to an --endpoint asks for (n); more than 1 needs "
            "--tokenizer. Default: 1, which tells each response's tokens and latency.",
        ),
    ] = None,
    api_key_variable: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="Environment variable with the API key of --endpoint, where it wants one. "
            f"Default: {DEFAULT_KEY_VARIABLE}.",
        ),
    ] = None,
    seed_requests: Annotated[
        bool | None,
        typer.Option(
            "--seed-requests",
            show_default=False,
            help="Send a seed, made of --seed, with each request to an --endpoint. Some servers "
            "fail on it.",
        ),
    ] = None,
    chat_template: Annotated[
        Literal["auto", "none"] | None,
        typer.Option(
            show_default=False,
            help="auto (default): --model gets prompts in the tokenizer's chat template where it "
            "has one; an --endpoint is asked for chat. none: the bare text, as TRL does with "
            "prompts that are text; an --endpoint is asked for completions.",
        ),
    ] = None,
    rollouts_format: Annotated[
        Format | None,
        typer.Option(
            "--from",
            show_default=False,
            help="Whose log --rollouts is (docs/rollouts.md). Default: auto, told by the columns; "
            "the pickles of slime and skyrl have to be named.",
        ),
    ] = None,
    rollouts_model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="Whose responses to take where --rollouts holds several models'; "
            "the model's name where it holds none.",
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="DIR_OR_NAME",
            show_default=False,
            help="Counts tokens where --rollouts holds text only, and renders prompts to find "
            "them where it holds them in the chat template. With --endpoint: counts where the "
            "server counts wrongly.",
        ),
    ] = None,
    rollouts_id_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="Join by this column of both files. Default: by the text of the prompt.",
        ),
    ] = None,
    prompt: Annotated[str | None, _column("prompt", "the prompt, text or messages")] = None,
    tokens: Annotated[str | None, _column("tokens", "the response's length in tokens")] = None,
    response: Annotated[str | None, _column("response", "the response's text")] = None,
    model_: Annotated[str | None, _column("model", "the model's name")] = None,
    sample_index: Annotated[str | None, _column("sample-index", "the number of the sample")] = None,
    prompt_tokens: Annotated[str | None, _column("prompt-tokens", "the prompt's length")] = None,
    finish_reason: Annotated[
        str | None, _column("finish-reason", "why it ended: stop, length, abort")
    ] = None,
    capped: Annotated[str | None, _column("capped", "whether it was cut at its cap")] = None,
    max_tokens: Annotated[str | None, _column("max-tokens", "its cap in tokens")] = None,
    sampled_at: Annotated[str | None, _column("temperature", "its temperature")] = None,
    policy_version: Annotated[
        str | None, _column("policy-version", "the policy version that answered, from 0")
    ] = None,
    latency: Annotated[str | None, _column("latency", "the seconds to the last token")] = None,
    ttft: Annotated[str | None, _column("ttft", "the seconds to the first token")] = None,
    concurrency: Annotated[
        str | None, _column("concurrency", "the number of requests decoded together")
    ] = None,
    domain: Annotated[str | None, _column("domain", "the kind of task")] = None,
    prompt_column: PromptColumn = "prompt",
    domain_column: DomainColumn = None,
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Learn how long the target model's responses are: from recorded rollouts, or by asking it.

    Recorded rollouts have, by default, columns prompt, response_tokens or response (text), and
    where known sample_index, prompt_tokens, finish_reason, capped, max_tokens, model.

    A run of --model that was killed goes on from OUTPUT.journal when it is given again; how many
    requests at once, to which servers, may then change.

    Example: asp profile prompts.parquet --rollouts rollouts.parquet -o profile.parquet

    Example: asp profile prompts.parquet --model ./my-model --num-prompts 256 -o profile.parquet

    Example: asp profile prompts.parquet --endpoint http://localhost:8000 --model my-model -o
    profile.parquet
    """
    columns = {
        "prompt": prompt,
        "tokens": tokens,
        "response": response,
        "model": model_,
        "sample_index": sample_index,
        "prompt_tokens": prompt_tokens,
        "finish_reason": finish_reason,
        "capped": capped,
        "max_tokens": max_tokens,
        "temperature": sampled_at,
        "policy_version": policy_version,
        "latency": latency,
        "ttft": ttft,
        "concurrency": concurrency,
        "domain": domain,
    }
    named = {field: column for field, column in columns.items() if column is not None}
    if (rollouts is None) == (model is None):
        raise typer.BadParameter(
            "give one source: --rollouts PATH, or --model DIR_OR_NAME (with or without --endpoint)"
        )
    if temperature is not None and not math.isfinite(temperature):
        raise typer.BadParameter(f"--temperature {temperature}: must be a finite number")
    of_endpoint = {
        "--concurrency": requests_at_once,
        "--request-timeout": request_timeout,
        "--samples-per-request": samples_per_request,
        "--api-key-variable": api_key_variable,
        "--seed-requests": seed_requests,
    }
    if rollouts is not None:
        refuse_shared_stdio(prompts, rollouts)
        of_model = {
            "--endpoint": endpoint,
            "--engine": engine,
            "--batch-size": batch_size,
            "--chat-template": chat_template,
            "--max-profile-tokens": max_profile_tokens,
            "--dry-run": dry_run or None,
        }
        refuse_useless({**of_model, **of_endpoint}, "--rollouts")
        from stages.profile.from_rollouts import RolloutsConfig, run_rollouts

        recorded = RolloutsConfig(
            format=rollouts_format or "auto",
            columns=named,
            id_column=rollouts_id_column,
            model=rollouts_model,
            tokenizer=tokenizer,
            max_response_tokens=max_response_tokens,
            temperature=temperature,
            num_prompts=num_prompts,
            rollouts_per_prompt=rollouts_per_prompt,
            prompt_column=prompt_column,
            domain_column=domain_column,
            seed=seed,
        )
        run_rollouts(prompts, rollouts, output, recorded, force)
    if model is not None:
        refuse_stdio_directory(model, "--model")
        of_rollouts = {
            "--from": rollouts_format,
            "--rollouts-model": rollouts_model,
            "--rollouts-id-column": rollouts_id_column,
        }
        of_columns = {f"--rollouts-{f.replace('_', '-')}-column": c for f, c in named.items()}
        refuse_useless({**of_rollouts, **of_columns}, "--model")
        from stages.profile.endpoint.settings import EndpointSettings
        from stages.profile.from_model import BATCH_SIZE, ModelConfig, run_model

        settings = None
        if endpoint is None:
            refuse_useless({"--tokenizer": tokenizer, **of_endpoint}, "--model without --endpoint")
        else:
            refuse_useless({"--batch-size": batch_size, "--engine": engine}, "--endpoint")
            if (samples_per_request or 1) > 1 and tokenizer is None:
                raise typer.BadParameter(
                    f"--samples-per-request {samples_per_request}: needs --tokenizer, for a server "
                    "counts the tokens of all responses of a request together"
                )
            settings = EndpointSettings(
                urls=tuple(dict.fromkeys(endpoint)),
                concurrency=requests_at_once or EndpointSettings.concurrency,
                request_timeout_s=request_timeout or EndpointSettings.request_timeout_s,
                samples_per_request=samples_per_request or 1,
                key_variable=api_key_variable or DEFAULT_KEY_VARIABLE,
                tokenizer=tokenizer,
                sends_seeds=bool(seed_requests),
            )

        asked = ModelConfig(
            model=model,
            max_response_tokens=max_response_tokens or ModelConfig.max_response_tokens,
            temperature=ModelConfig.temperature if temperature is None else temperature,
            rollouts_per_prompt=rollouts_per_prompt,
            max_profile_tokens=max_profile_tokens,
            num_prompts=num_prompts,
            batch_size=batch_size or BATCH_SIZE[engine or ModelConfig.engine],
            engine=engine or ModelConfig.engine,
            endpoint=settings,
            uses_template=chat_template != "none",
            prompt_column=prompt_column,
            domain_column=domain_column,
            seed=seed,
        )
        run_model(prompts, output, asked, force, dry_run)
