"""What the scripts of all clients share: where the server is, what is asked, and the transcript."""

import json
import sys

BASE, MODEL, SECTIONS = sys.argv[1], sys.argv[2], sys.argv[3:]

PROMPT = "Say hello to the world."
N_TOKENS = 12

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Oslo", "Paris"]},
        "days": {"type": "integer", "enum": [1, 2, 3]},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOL_NAME = "get_weather"
TOOL = {"name": TOOL_NAME, "description": "The weather of a city.", "parameters": SCHEMA}


def say(what, *values):
    """A line of the transcript."""
    print(f"{what}:", *(json.dumps(v, ensure_ascii=False, default=str) for v in values), flush=True)


def answer(text):
    """The greedy answer to PROMPT: it must be the same through every client."""
    print("ANSWER", json.dumps(text, ensure_ascii=False), flush=True)


def check_arguments(arguments):
    assert arguments["city"] in ("Oslo", "Paris") and arguments["days"] in (1, 2, 3), arguments
    assert set(arguments) == {"city", "days"}, arguments


def run(sections):
    """Runs the sections that were asked for, all of which must exist."""
    for name in SECTIONS:
        print(f"# {name}", flush=True)
        sections[name]()
    print("OK", len(SECTIONS), "sections", flush=True)
