"""The transcript of `anthropic` for Python."""

import anthropic

from transcript import BASE, MODEL, N_TOKENS, PROMPT, TOOL, TOOL_NAME, answer, check_arguments, run, say

client = anthropic.Anthropic(base_url=BASE, api_key="secret", max_retries=0)
MESSAGES = [{"role": "user", "content": PROMPT}]
# The client no longer has a name for the temperature, and passes on what it has no name for.
GREEDY = {"model": MODEL, "messages": MESSAGES, "extra_body": {"temperature": 0}, "max_tokens": N_TOKENS}
TOOLS = [{"name": TOOL_NAME, "description": TOOL["description"], "input_schema": TOOL["parameters"]}]


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def chat():
    message = client.messages.create(**GREEDY)
    assert message.type == "message" and message.role == "assistant" and message.id.startswith("msg_")
    assert message.stop_reason in ("end_turn", "max_tokens") and message.stop_sequence is None
    assert 0 < message.usage.output_tokens <= N_TOKENS
    say("chat", text_of(message), message.stop_reason)
    answer(text_of(message))
    blocks = [{"type": "text", "text": PROMPT}]
    same = client.messages.create(**{**GREEDY, "messages": [{"role": "user", "content": blocks}]})
    assert text_of(same) == text_of(message)
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    other = client.messages.create(**GREEDY, system=system)
    count = lambda m: m.usage.input_tokens + m.usage.cache_read_input_tokens
    assert count(other) != count(message), "the system block is part of the prompt"


def stream():
    events = list(client.messages.create(**GREEDY, stream=True))
    kinds = [event.type for event in events]
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"], kinds
    assert kinds.count("content_block_start") == kinds.count("content_block_stop")
    assert events[-2].delta.stop_reason in ("end_turn", "max_tokens")
    with client.messages.stream(**GREEDY) as events:
        text = "".join(events.text_stream)
        message = events.get_final_message()
    assert text_of(message) == text and message.usage.output_tokens > 0
    say("stream", text)
    answer(text)


def stop():
    whole = text_of(client.messages.create(**GREEDY))
    word = whole[len(whole) // 2 : len(whole) // 2 + 2]
    message = client.messages.create(**GREEDY, stop_sequences=[word])
    assert message.stop_reason == "stop_sequence" and message.stop_sequence == word
    assert text_of(message) == whole[: whole.index(word)]
    say("stop", word, text_of(message))


def tools():
    asked = {**GREEDY, "max_tokens": 200, "tools": TOOLS}
    for choice in ({"type": "any"}, {"type": "tool", "name": TOOL_NAME}):
        message = client.messages.create(**asked, tool_choice=choice)
        assert message.stop_reason == "tool_use", message
        call = message.content[-1]
        assert call.type == "tool_use" and call.name == TOOL_NAME and call.id
        check_arguments(call.input)
        say("tools", call.name, call.input)
    with client.messages.stream(**asked, tool_choice={"type": "any"}) as events:
        parts = [e.partial_json for e in events if e.type == "input_json"]
        message = events.get_final_message()
    check_arguments(message.content[-1].input)
    assert message.stop_reason == "tool_use" and parts
    say("tools, streamed", message.content[-1].input)
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "Sunny, 21 degrees."}
    talk = [*MESSAGES, {"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}]
    message = client.messages.create(**{**asked, "messages": talk, "tool_choice": {"type": "none"}})
    assert all(block.type == "text" for block in message.content)
    say("after the tool", message.stop_reason in ("end_turn", "max_tokens"))


def count():
    n = client.messages.count_tokens(model=MODEL, messages=MESSAGES).input_tokens
    usage = client.messages.create(**GREEDY).usage
    assert n == usage.input_tokens + usage.cache_read_input_tokens, (n, usage)
    say("count", n)


def errors():
    for wrong, kind in [
        ({"max_tokens": 0}, anthropic.BadRequestError),
        ({"messages": []}, anthropic.BadRequestError),
        ({"model": "nobody"}, anthropic.NotFoundError),
    ]:
        try:
            client.messages.create(**{**GREEDY, **wrong})
            raise AssertionError(f"{wrong} was taken")
        except anthropic.APIStatusError as error:
            assert isinstance(error, kind) and error.body["type"] == "error", error
            say("error", error.status_code, error.body["error"]["type"])
    stranger = anthropic.Anthropic(base_url=BASE, api_key="wrong", max_retries=0)
    try:
        stranger.messages.create(**GREEDY)
        raise AssertionError("a wrong key was taken")
    except anthropic.AuthenticationError as error:
        say("error", error.status_code, error.body["error"]["type"])


run(globals())
