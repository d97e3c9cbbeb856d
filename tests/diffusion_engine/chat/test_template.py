"""Chat templates of checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diffusion_engine.chat.template import ChatTemplate, ChatTemplateError
from diffusion_engine.models import CheckpointError

USER = [{"role": "user", "content": "hi <b>"}]


def test_the_folders_template_is_used_with_its_special_tokens(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "bos_token": {"content": "<s>"},
                "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ tools | tojson }}",
            }
        )
    )
    template = ChatTemplate.from_folder(tmp_path)
    assert template is not None
    assert template.render(USER, [{"é": "<"}]) == '<s>hi <b>[{"é": "<"}]'


def test_a_template_file_of_its_own_comes_first(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "old"}))
    (tmp_path / "chat_template.jinja").write_text("new")
    template = ChatTemplate.from_folder(tmp_path)
    assert template is not None
    assert template.render(USER, None) == "new"


def test_a_checkpoint_without_one_has_none(tmp_path: Path) -> None:
    assert ChatTemplate.from_folder(tmp_path) is None


def test_a_refusal_is_the_templates_own_words() -> None:
    with pytest.raises(ChatTemplateError, match="roles must alternate"):
        ChatTemplate("{{ raise_exception('roles must alternate') }}", {}).render(USER, None)


def test_a_template_cannot_reach_out_of_its_sandbox() -> None:
    with pytest.raises(ChatTemplateError):
        ChatTemplate("{{ messages.__class__.__mro__[1].__subclasses__() }}", {}).render(USER, None)


@pytest.mark.parametrize("content", ["{", json.dumps({"chat_template": "{% if %}"}), "[1]"])
def test_a_damaged_one_names_its_file(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer_config.json").write_text(content)
    with pytest.raises(CheckpointError, match="tokenizer_config"):
        ChatTemplate.from_folder(tmp_path)
