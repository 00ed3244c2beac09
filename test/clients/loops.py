"""Tool loops of Python's clients: `loops.py <gateway url> <key> <model>...` prints the answers of each model as JSON.

The first model is also called by packages that wrap the clients of OpenAI and Anthropic. All models run in one process,
because the packages take seconds to load.

The model calls a tool twice and then answers; instructor reads structured answers. A rejected
request raises an exception of the client, which ends the program.
"""

import asyncio
import json
import os
import sys

url, key, *models = sys.argv[1:]
# Without this setting, LiteLLM loads its price list from the network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import anthropic
import openai
from pydantic import BaseModel

QUESTION = "[[tool-rounds:2]] [[preface]] how is the tide"
DESCRIPTION = "Returns the tide of a place."
SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
FUNCTION = {"name": "look_up", "description": DESCRIPTION, "parameters": SCHEMA}
TOOLS = [{"type": "function", "function": FUNCTION}]
TURNS_MAX = 3

client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)


def look_up(place: str) -> str:
    """Returns the tide of a place."""
    return f"high at {place}"


def run_chat_loop(complete) -> str:
    """Runs a tool loop with OpenAI's chat format; `complete` sends the messages."""
    messages = [{"role": "user", "content": QUESTION}]
    for _ in range(TURNS_MAX):
        message = complete(messages).choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            content = look_up(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    raise AssertionError(f"no answer after {TURNS_MAX} turns")


def run_openai(model: str) -> str:
    return run_chat_loop(
        lambda messages: client.chat.completions.create(model=model, messages=messages, tools=TOOLS)
    )


def run_openai_responses(model: str) -> str:
    tools = [{"type": "function", "strict": False, **FUNCTION}]
    items = [{"role": "user", "content": QUESTION}]
    for _ in range(TURNS_MAX):
        response = client.responses.create(model=model, input=items, tools=tools, store=False)
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return response.output_text
        items += [item.model_dump(exclude_none=True) for item in response.output]
        for call in calls:
            output = look_up(**json.loads(call.arguments))
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
    raise AssertionError(f"no answer after {TURNS_MAX} turns")


def run_anthropic(model: str) -> str:
    claude = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)
    tools = [{"name": "look_up", "description": DESCRIPTION, "input_schema": SCHEMA}]
    messages = [{"role": "user", "content": QUESTION}]
    for _ in range(TURNS_MAX):
        message = claude.messages.create(
            model=model, max_tokens=500, messages=messages, tools=tools
        )
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in message.content if block.type == "text")
        messages.append({"role": "assistant", "content": message.content})
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": look_up(**call.input)}
            for call in calls
        ]
        messages.append({"role": "user", "content": results})
    raise AssertionError(f"no answer after {TURNS_MAX} turns")


def run_litellm(model: str, provider: str, base: str) -> str:
    import litellm

    return run_chat_loop(
        lambda messages: litellm.completion(
            model=f"{provider}/{model}",
            api_base=base,
            api_key=key,
            messages=messages,
            tools=TOOLS,
            max_retries=0,
        )
    )


class Tide(BaseModel):
    height: float
    place: str


def run_instructor(model: str, mode: str) -> str:
    """Reads a structured answer, whose schema is a tool in mode TOOLS."""
    import instructor

    tide = instructor.from_openai(client, mode=instructor.Mode[mode]).chat.completions.create(
        model=model,
        response_model=Tide,
        messages=[{"role": "user", "content": "the tide"}],
        max_retries=0,
    )
    return tide.place


async def run_agents(model: str, model_class: str) -> str:
    import agents

    agents.set_tracing_disabled(True)
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as own:
        agent = agents.Agent(
            name="harbour",
            model=getattr(agents, model_class)(model=model, openai_client=own),
            tools=[agents.function_tool(look_up)],
        )
        return (await agents.Runner.run(agent, QUESTION, max_turns=TURNS_MAX)).final_output


def embed() -> dict[str, int]:
    """Returns the sizes of the vectors that each client receives with its default settings."""
    import litellm
    from langchain_openai import OpenAIEmbeddings

    texts = ["a pier", "a harbour"]
    own = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0).embeddings
    tokens = own.create(model="text-embedding-3-small", input=[[64, 7], [9]]).data
    lite = litellm.embedding(
        model="openai/mistral-embed", api_base=f"{url}/v1", api_key=key, input=texts
    ).data
    # Without this option, it loads a tokenizer from the network, and sends tokens.
    langchain = OpenAIEmbeddings(
        model="gemini-embedding-001",
        base_url=f"{url}/v1",
        api_key=key,
        check_embedding_ctx_length=False,
    ).embed_documents(texts)
    return {
        "openai": len(own.create(model="text-embedding-3-large", input=texts).data[1].embedding),
        "openai, tokens": len(tokens[1].embedding),
        "litellm": len(lite[1]["embedding"]),
        "langchain": len(langchain[1]),
    }


def run_frameworks(model: str) -> dict:
    return {
        "litellm, openai/": run_litellm(model, "openai", f"{url}/v1"),
        "litellm, anthropic/": run_litellm(model, "anthropic", url),
        "instructor, TOOLS": run_instructor(model, "TOOLS"),
        "instructor, JSON_SCHEMA": run_instructor(model, "JSON_SCHEMA"),
        "openai-agents": asyncio.run(run_agents(model, "OpenAIResponsesModel")),
        "openai-agents, chat completions": asyncio.run(run_agents(model, "OpenAIChatCompletionsModel")),
        "vectors": embed(),
    }


answers = {
    model: {
        "openai": run_openai(model),
        "openai, Responses API": run_openai_responses(model),
        "anthropic": run_anthropic(model),
    }
    for model in models
}
answers[models[0]] |= run_frameworks(models[0])
print(json.dumps(answers))
