"""The transcript of `openai` for Python."""

import base64
import json
import math
import struct

import openai
from pydantic import BaseModel
from typing import Literal

from transcript import BASE, MODEL, N_TOKENS, PROMPT, TOOL, TOOL_NAME, answer, check_arguments, run, say

client = openai.OpenAI(base_url=f"{BASE}/v1", api_key="secret", max_retries=0)
MESSAGES = [{"role": "user", "content": PROMPT}]
GREEDY = {"model": MODEL, "messages": MESSAGES, "temperature": 0, "max_tokens": N_TOKENS}
TOOLS = [{"type": "function", "function": TOOL}]


def models():
    ids = [m.id for m in client.models.list()]
    assert MODEL in ids, ids
    assert client.models.retrieve(MODEL).id == MODEL
    say("models", ids)


def chat():
    reply = client.chat.completions.create(**GREEDY)
    choice = reply.choices[0]
    assert reply.object == "chat.completion" and reply.id.startswith("chatcmpl-")
    assert choice.message.role == "assistant" and choice.finish_reason in ("stop", "length")
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert reply.usage.completion_tokens <= N_TOKENS
    say("chat", choice.message.content, choice.finish_reason, reply.usage.completion_tokens)
    answer(choice.message.content)
    several = client.chat.completions.create(**{**GREEDY, "n": 2, "temperature": 1, "seed": 7})
    assert len(several.choices) == 2 and [c.index for c in several.choices] == [0, 1]
    again = client.chat.completions.create(**{**GREEDY, "n": 2, "temperature": 1, "seed": 7})
    assert [c.message.content for c in several.choices] == [c.message.content for c in again.choices]


def stream():
    chunks = list(client.chat.completions.create(**GREEDY, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert len({c.id for c in chunks}) == 1
    *body, last = chunks
    assert last.choices == [] and last.usage.completion_tokens > 0
    assert body[-1].choices[0].finish_reason in ("stop", "length")
    assert all(c.choices[0].finish_reason is None for c in body[:-1])
    text = "".join(c.choices[0].delta.content or "" for c in body)
    say("stream", len(chunks) > 3, text)
    answer(text)
    with client.chat.completions.stream(**GREEDY) as events:
        answer("".join(e.delta for e in events if e.type == "content.delta"))


def logprobs():
    reply = client.chat.completions.create(**GREEDY, logprobs=True, top_logprobs=3)
    content = reply.choices[0].logprobs.content
    assert len(content) >= 1 and all(len(t.top_logprobs) == 3 for t in content)
    assert all(t.logprob <= 0 and bytes(t.bytes).decode("utf-8", "replace") is not None for t in content)
    assert all(t.top_logprobs[0].token == t.token for t in content), "greedy takes the most probable"
    say("logprobs", len(content))


def completions():
    reply = client.completions.create(model=MODEL, prompt="Once upon", max_tokens=6, temperature=0, logprobs=2, echo=True)
    assert reply.choices[0].text.startswith("Once upon")
    assert len(reply.choices[0].logprobs.tokens) == reply.usage.total_tokens
    plain = client.completions.create(model=MODEL, prompt="Once upon", max_tokens=6, temperature=0)
    assert reply.choices[0].text == "Once upon" + plain.choices[0].text
    chunks = client.completions.create(model=MODEL, prompt="Once upon", max_tokens=6, temperature=0, stream=True)
    assert "".join(c.choices[0].text for c in chunks) == plain.choices[0].text
    say("completions", plain.choices[0].text)


def tools():
    asked = {**GREEDY, "max_tokens": 200, "tools": TOOLS}
    for choice in ("required", {"type": "function", "function": {"name": TOOL_NAME}}):
        reply = client.chat.completions.create(**asked, tool_choice=choice)
        message = reply.choices[0].message
        assert reply.choices[0].finish_reason == "tool_calls", reply
        call = message.tool_calls[0]
        assert call.type == "function" and call.function.name == TOOL_NAME and call.id
        check_arguments(json.loads(call.function.arguments))
        say("tools", call.function.name, json.loads(call.function.arguments))
    chunks = list(client.chat.completions.create(**asked, tool_choice="required", stream=True))
    deltas = [d for c in chunks if c.choices for d in c.choices[0].delta.tool_calls or []]
    first, *rest = [d for d in deltas if d.index == 0]
    assert first.id and first.function.name == TOOL_NAME
    assert all(d.id is None and d.function.name is None for d in rest), "id and name come once"
    text = (first.function.arguments or "") + "".join(d.function.arguments for d in rest)
    check_arguments(json.loads(text))
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    say("tools, streamed", json.loads(text))
    talk = [*MESSAGES, message, {"role": "tool", "tool_call_id": call.id, "content": "Sunny, 21 degrees."}]
    reply = client.chat.completions.create(**{**asked, "messages": talk}, tool_choice="none")
    assert not reply.choices[0].message.tool_calls
    say("after the tool", isinstance(reply.choices[0].message.content, str))


class Trip(BaseModel):
    city: Literal["Oslo", "Paris"]
    days: Literal[1, 2, 3]


def parse():
    asked = {**GREEDY, "max_tokens": 200}
    reply = client.chat.completions.parse(**asked, response_format=Trip)
    trip = reply.choices[0].message.parsed
    assert isinstance(trip, Trip)
    say("parse", trip.model_dump())
    reply = client.chat.completions.create(
        **asked, response_format={"type": "json_schema", "json_schema": {"name": "trip", "schema": TOOL["parameters"], "strict": True}}
    )
    check_arguments(json.loads(reply.choices[0].message.content))
    tool = openai.pydantic_function_tool(Trip, name="trip")
    reply = client.chat.completions.parse(**asked, tools=[tool], tool_choice="required")
    parsed = reply.choices[0].message.tool_calls[0].function.parsed_arguments
    assert isinstance(parsed, Trip)
    say("parse, a tool", parsed.model_dump())


def embeddings():
    reply = client.embeddings.create(model=MODEL, input=["Hello", "Good day"])
    assert [d.index for d in reply.data] == [0, 1]
    first = reply.data[0].embedding
    assert math.isclose(sum(x * x for x in first), 1, rel_tol=1e-3)
    raw = client.embeddings.with_raw_response.create(model=MODEL, input="Hello", encoding_format="base64")
    text = json.loads(raw.text)["data"][0]["embedding"]
    data = base64.b64decode(text)
    same = struct.unpack(f"<{len(data) // 4}f", data)
    floats = client.embeddings.create(model=MODEL, input="Hello", encoding_format="float").data[0].embedding
    assert len(floats) == len(same) and all(math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-7) for a, b in zip(same, floats))
    short = client.embeddings.create(model=MODEL, input="Hello", dimensions=8).data[0].embedding
    assert len(short) == 8 and math.isclose(sum(x * x for x in short), 1, rel_tol=1e-3)
    say("embeddings", len(first), reply.usage.prompt_tokens > 0)


def responses():
    asked = {"model": MODEL, "input": PROMPT, "temperature": 0, "max_output_tokens": N_TOKENS}
    reply = client.responses.create(**asked)
    assert reply.object == "response" and reply.status in ("completed", "incomplete")
    say("responses", reply.output_text, reply.status)
    answer(reply.output_text)
    events = list(client.responses.create(**asked, stream=True))
    kinds = [e.type for e in events]
    assert kinds[0] == "response.created" and kinds[-1] in ("response.completed", "response.incomplete"), kinds
    numbers = [e.sequence_number for e in events]
    assert numbers == sorted(numbers)
    answer("".join(e.delta for e in events if e.type == "response.output_text.delta"))


def errors():
    for wrong, kind, param in [
        ({"temperature": 9}, openai.BadRequestError, "temperature"),
        ({"messages": []}, openai.BadRequestError, "messages"),
        ({"model": "nobody"}, openai.NotFoundError, "model"),
    ]:
        try:
            client.chat.completions.create(**{**GREEDY, **wrong})
            raise AssertionError(f"{wrong} was taken")
        except openai.APIStatusError as error:
            assert isinstance(error, kind) and error.param == param and error.body["type"], error
            say("error", error.status_code, error.param)
    stranger = openai.OpenAI(base_url=f"{BASE}/v1", api_key="wrong", max_retries=0)
    try:
        stranger.models.list()
        raise AssertionError("a wrong key was taken")
    except openai.AuthenticationError as error:
        say("error", error.status_code)


run(globals())
