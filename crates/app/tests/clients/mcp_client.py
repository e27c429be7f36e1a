"""Asks a service with the official Python client of the Model Context Protocol.

    python mcp_client.py http://127.0.0.1:8080 MODEL

Ends with 1 and a sentence at the first thing that is wrong.
"""

import asyncio
import json
import sys

from mcp import Client, MCPError

if len(sys.argv) != 3:
    sys.exit(__doc__)
base, model = sys.argv[1].rstrip("/"), sys.argv[2]


class Wrong(Exception):
    pass


def check(holds, sentence, *seen):
    if not holds:
        raise Wrong(f"wrong: {sentence}" + "".join(f"\n  seen: {value!r}" for value in seen))


def first(error):
    """The error that a group of tasks was ended by."""
    return first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


async def refused(call, sentence, word):
    """The call is an error of the protocol, and says what is wrong."""
    try:
        result = await call
    except MCPError as error:
        check(word in str(error), f"{sentence} names what is wrong", error)
        return
    check(False, f"{sentence} is an error", result)


async def use(mode):
    async with Client(f"{base}/mcp", mode=mode) as client:
        check(client.server_info.name == "reverie", "the server tells its name", client.server_info)
        check(client.server_capabilities.tools is not None, "it offers tools", client.server_capabilities)
        check(model in client.instructions, "its instructions name what is served", client.instructions)

        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        check(set(tools) == {"search", "fetch"}, "there are the two tools", sorted(tools))
        check(tools["search"].input_schema["required"] == ["query"], "search takes a query", tools["search"])
        check(tools["fetch"].input_schema["required"] == ["id"], "fetch takes an id", tools["fetch"])
        check(all(tool.annotations.read_only_hint for tool in tools.values()), "both only read", tools)

        found = await client.call_tool("search", {"query": "What do the documents say?"})
        check(not found.is_error, "a search succeeds", found)
        check(json.loads(found.content[0].text) == found.structured_content, "text and structure say the same", found)
        results = found.structured_content["results"]
        check(results, "something is found", found)
        for result in results:
            check(result["id"] and result["title"] and result["url"], "a result has id, title and url", result)

        fetched = (await client.call_tool("fetch", {"id": results[0]["id"]})).structured_content
        check(fetched["id"] == results[0]["id"], "the document is the one that was wanted", fetched)
        check(fetched["title"] and fetched["url"], "it has title and url", fetched)
        check(fetched["metadata"]["passage"] in fetched["text"], "its text holds the passage", fetched)

        await refused(client.call_tool("delete", {}), "an unknown tool", "delete")
        await refused(client.call_tool("search", {}), "a search for nothing", "query")
        await refused(client.call_tool("search", {"query": 7}), "a search for a number", "query")
        # What goes wrong in a tool is its result, so that a model can read it.
        for name, arguments in (("fetch", {"id": "no such"}), ("search", {"query": " "})):
            failed = await client.call_tool(name, arguments)
            check(failed.is_error and failed.content[0].text, f"{name} {arguments} fails with a reason", failed)


# The handshake of protocols until 2025, and without it.
for mode in ("legacy", "auto"):
    try:
        asyncio.run(asyncio.wait_for(use(mode), 60))
    except Exception as error:
        cause = first(error)
        sys.exit(f"{mode}: {cause if isinstance(cause, Wrong) else repr(cause)}")
print("ok")
