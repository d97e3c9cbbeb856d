import json

import jsonschema
import pytest

from voice_agent.agents.front_desk.tools import ToolCallError

from .places import LUNA, new_conversation


def names(turn_tools: list[dict]) -> list[str]:
    return [t["function"]["name"] for t in turn_tools]


def schema(turn_tools: list[dict], name: str) -> dict:
    return next(t["function"]["parameters"] for t in turn_tools if t["function"]["name"] == name)


def test_a_tool_is_offered_only_when_its_required_arguments_were_heard():
    call = new_conversation()
    assert names(call.turn().tools) == ["opening_hours", "restaurant_info", "hand_over", "end_call"]
    assert "check_availability" not in names(call.heard("a table for two tomorrow").tools)
    offered = names(call.heard("at eight").tools)
    assert "check_availability" in offered
    assert "book_table" not in offered
    assert "book_table" in names(call.heard("my name is smith").tools)
    assert "confirm" not in names(call.turn().tools)


def test_arguments_are_enumerations_of_what_was_heard():
    tools = new_conversation().heard("A table for two tomorrow at 8, my name is Smith.").tools
    properties = schema(tools, "book_table")["properties"]
    assert {key: value["enum"] for key, value in properties.items()} == {
        "name": ["smith"],
        "date": ["2026-12-01"],
        "time": ["20:00"],
        "party_size": [2],
    }
    assert schema(tools, "restaurant_info")["properties"]["topic"]["enum"] == list(LUNA.topics)
    for tool in tools:
        jsonschema.Draft202012Validator.check_schema(tool["function"]["parameters"])


def test_change_and_cancel_need_name_and_number():
    call = new_conversation()
    assert "cancel_booking" not in names(call.heard("i want to cancel my booking, it's under smith").tools)
    tools = call.heard("the number is 4271").tools
    assert "cancel_booking" in names(tools)
    assert "change_booking" not in names(tools)
    tools = call.heard("or rather change it to five people").tools
    assert schema(tools, "change_booking")["required"] == ["name", "number"]
    assert schema(tools, "change_booking")["properties"]["party_size"]["enum"] == [5]


def test_a_result_is_compact_json_with_a_sentence_to_say():
    result = new_conversation().tool_called("restaurant_info", {"topic": "parking"})
    assert json.loads(result.content) == {"say": LUNA.topics["parking"]}
    assert ", " not in result.content.split(":")[0]


@pytest.mark.parametrize(
    ("name", "arguments", "part"),
    [
        ("order_pizza", {}, "called order_pizza, which wasn't offered"),
        ("confirm", {}, "called confirm, which wasn't offered"),
        ("restaurant_info", {}, "without topic"),
        ("restaurant_info", {"topic": "weather"}, "'weather', which is not one of"),
        ("opening_hours", {"date": "2026-12-24"}, "'2026-12-24', which is not one of"),
        ("check_availability", {"date": "2026-12-01", "time": "20:00", "party_size": 3}, "3, which is not one of"),
        ("check_availability", {"date": "2026-12-01", "time": "20:00", "party_size": 2, "x": 1}, "x 1"),
    ],
)
def test_a_call_that_was_not_on_offer_says_why_and_leaves_the_history_alone(name: str, arguments: dict, part: str):
    call = new_conversation()
    call.heard("hello, a table for two tomorrow at eight")
    before = call.messages
    with pytest.raises(ToolCallError, match=part):
        call.tool_called(name, arguments)
    assert call.messages == before


@pytest.mark.parametrize(
    ("caller", "offered"),
    [
        ("what time do you close on sundays", False),
        ("great and do you have parking", False),
        ("no that's all thank you", True),
        ("perfect thanks", True),
        ("thanks have a good evening", True),
        ("do you have a table for two", False),
        ("can i go now okay bye", True),
    ],
)
def test_nobody_is_hung_up_on_who_asks(caller: str, offered: bool) -> None:
    call = new_conversation()
    call.heard(caller)
    assert ("end_call" in names(call.turn().tools)) == offered
