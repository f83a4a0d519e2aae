"""The transcript of `langchain-openai`."""

from typing import Literal

from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

from transcript import BASE, MODEL, N_TOKENS, PROMPT, answer, check_arguments, run, say

model = ChatOpenAI(base_url=f"{BASE}/v1", api_key="secret", model=MODEL, temperature=0, max_tokens=N_TOKENS, max_retries=0)
long = ChatOpenAI(base_url=f"{BASE}/v1", api_key="secret", model=MODEL, temperature=0, max_tokens=200, max_retries=0)


def chat():
    reply = model.invoke(PROMPT)
    assert reply.usage_metadata["output_tokens"] <= N_TOKENS
    say("chat", reply.content, reply.response_metadata["finish_reason"])
    answer(reply.content)
    many = model.batch([[SystemMessage("Be brief."), HumanMessage(PROMPT)]] * 3)
    assert len({reply.content for reply in many}) == 1


def stream():
    parts = list(model.stream(PROMPT))
    text = "".join(part.content for part in parts)
    say("stream", len(parts) > 3, text)
    answer(text)


@tool
def get_weather(city: Literal["Oslo", "Paris"], days: Literal[1, 2, 3]) -> str:
    """The weather of a city."""
    return f"Sunny in {city} for {days} days."


def tools():
    bound = long.bind_tools([get_weather], tool_choice="any", strict=True)
    reply = bound.invoke(PROMPT)
    call = reply.tool_calls[0]
    check_arguments(call["args"])
    say("tools", call["name"], call["args"])
    result = get_weather.invoke(call)
    assert isinstance(result, ToolMessage)
    last = model.bind_tools([get_weather], tool_choice="none").invoke([HumanMessage(PROMPT), reply, result])
    assert not last.tool_calls
    parts = list(bound.stream(PROMPT))
    whole = parts[0]
    for part in parts[1:]:
        whole = whole + part
    check_arguments(whole.tool_calls[0]["args"])


class Trip(BaseModel):
    city: Literal["Oslo", "Paris"]
    days: Literal[1, 2, 3]


def structured():
    for method in ("json_schema", "function_calling"):
        trip = long.with_structured_output(Trip, method=method).invoke(PROMPT)
        assert isinstance(trip, Trip), trip
        say("structured", method, trip.model_dump())


def embeddings():
    embedder = OpenAIEmbeddings(base_url=f"{BASE}/v1", api_key="secret", model=MODEL, check_embedding_ctx_length=False)
    vectors = embedder.embed_documents(["Hello", "Good day"])
    assert len(vectors) == 2 and len(vectors[0]) == len(embedder.embed_query("Hello"))
    say("embeddings", len(vectors[0]))


run(globals())
