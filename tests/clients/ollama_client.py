"""The transcript of `ollama` for Python."""

import json

import ollama

from transcript import BASE, MODEL, N_TOKENS, PROMPT, TOOL, answer, check_arguments, run, say

client = ollama.Client(host=BASE, headers={"Authorization": "Bearer secret"})
MESSAGES = [{"role": "user", "content": PROMPT}]
OPTIONS = {"temperature": 0, "num_predict": N_TOKENS}
GREEDY = {"model": MODEL, "messages": MESSAGES, "options": OPTIONS}


def models():
    names = [m.model for m in client.list().models]
    assert MODEL in names, names
    shown = client.show(MODEL)
    assert shown.details.format == "gguf" and "completion" in shown.capabilities
    assert shown.modelinfo["general.architecture"] == shown.details.family
    assert [m.model for m in client.ps().models] == [MODEL]
    say("models", names, shown.details.family, shown.details.quantization_level)


def chat():
    reply = client.chat(**GREEDY)
    assert reply.done and reply.done_reason in ("stop", "length") and reply.message.role == "assistant"
    assert 0 < reply.eval_count <= N_TOKENS and reply.prompt_eval_count > 0
    assert reply.total_duration >= reply.prompt_eval_duration + reply.eval_duration > 0
    say("chat", reply.message.content, reply.done_reason)
    answer(reply.message.content)


def stream():
    parts = list(client.chat(**GREEDY, stream=True))
    assert [p.done for p in parts] == [False] * (len(parts) - 1) + [True]
    text = "".join(p.message.content for p in parts)
    say("stream", len(parts) > 3, text)
    answer(text)


def generate():
    reply = client.generate(model=MODEL, prompt=PROMPT, options=OPTIONS)
    assert reply.done and len(reply.context) == reply.prompt_eval_count + reply.eval_count
    answer(reply.response)
    text = "".join(p.response for p in client.generate(model=MODEL, prompt=PROMPT, options=OPTIONS, stream=True))
    answer(text)
    raw = client.generate(model=MODEL, prompt="Once upon", raw=True, options=OPTIONS)
    say("generate", text, raw.response)


def structured():
    options = {**OPTIONS, "num_predict": 200}
    reply = client.chat(model=MODEL, messages=MESSAGES, format=TOOL["parameters"], options=options)
    check_arguments(json.loads(reply.message.content))
    say("structured", json.loads(reply.message.content))


def tools():
    tool = {"type": "function", "function": TOOL}
    reply = client.chat(**GREEDY, tools=[tool])
    assert reply.done
    say("tools", reply.message.tool_calls is None or len(reply.message.tool_calls))


def embeddings():
    reply = client.embed(model=MODEL, input=["Hello", "Good day"])
    assert len(reply.embeddings) == 2 and len(reply.embeddings[0]) == len(reply.embeddings[1]) > 0
    say("embeddings", len(reply.embeddings[0]))


def errors():
    for wrong, status in [({"model": "nobody"}, 404), ({"options": {"temperature": "hot"}}, 400)]:
        try:
            client.chat(**{**GREEDY, **wrong})
            raise AssertionError(f"{wrong} was taken")
        except ollama.ResponseError as error:
            assert error.status_code == status and error.error, error
            say("error", error.status_code)


run(globals())
