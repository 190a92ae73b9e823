"""A row a response, with its length or its text: what anybody can write.

Columns `prompt` and `response_tokens`, or `response` with the text; where known `sample_index`,
`prompt_tokens`, `finish_reason`, `capped`, `max_tokens`, `model`, `policy_version`, `temperature`,
`latency_s`, `ttft_s`, `concurrency`, `domain`. Parquet or JSON lines. A profile is one too.
"""

from stages.profile.logs.layout import FIELDS, Layout

PLAIN = Layout(name="plain", about=__doc__, columns=FIELDS, sample="written by hand")
