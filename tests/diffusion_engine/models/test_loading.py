"""Checkpoints on disk: every family, sharded or not, in every precision; and those that can't be used say why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from diffusion_engine.models import CheckpointError, DenseAttention, load_model, read_config
from diffusion_engine.models.registry import FAMILIES
from diffusion_engine.models.tensors import INDEX
from tests.diffusion_engine.conftest import EVERY_FAMILY
from tests.diffusion_engine.tiny import tiny_config, write_checkpoint

WEIGHTS = "model.safetensors"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def shard(folder: Path) -> None:
    """Split the tensors over two files with an index, as large checkpoints are."""
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    names = sorted(tensors)
    parts = dict(zip(SHARDS, (names[::2], names[1::2]), strict=True))
    for file, part in parts.items():
        save_file({name: tensors[name] for name in part}, folder / file)
    (folder / INDEX).write_text(json.dumps({"weight_map": {n: file for file, part in parts.items() for n in part}}))


def edit_config(folder: Path, edit: Callable[[dict[str, object]], object]) -> None:
    config = json.loads((folder / "config.json").read_text())
    edit(config)
    (folder / "config.json").write_text(json.dumps(config))


def logits(folder: Path, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    model = load_model(folder, dtype=dtype)
    tokens = torch.arange(10)
    with torch.inference_mode():
        hidden = model(tokens, tokens, DenseAttention(torch.ones(10, 10, dtype=torch.bool)))
        return model.logits(hidden)


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_every_family_loads_also_from_shards(family: str, tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, family)
    whole = logits(folder)
    shard(folder)
    assert torch.equal(logits(folder), whole)
    assert read_config(folder)[1] is FAMILIES[family]


@pytest.mark.parametrize("family", EVERY_FAMILY)
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_precision_on_disk_and_in_memory(
    family: str, stored: torch.dtype, dtype: torch.dtype, tmp_path: Path
) -> None:
    folder = write_checkpoint(tmp_path, family)
    exact = logits(folder)
    save_file({n: t.to(stored) for n, t in load_file(folder / WEIGHTS).items()}, folder / WEIGHTS)
    close = torch.nn.functional.cosine_similarity(logits(folder, dtype), exact, dim=-1)
    assert close.median() > 0.99


def test_every_documented_family_loads(tmp_path: Path) -> None:
    """The table of docs/families.md is the registry, name for name."""
    lines = (Path(__file__).parents[3] / "docs" / "families.md").read_text().splitlines()
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| `")]
    documented = {row[0]: row for row in rows if row[0] != "model_type"}
    assert documented.keys() == FAMILIES.keys()
    for family, (_, name, _, _, strategy, _) in documented.items():
        entry = FAMILIES[family]
        assert strategy.startswith(entry.default_strategy)
        assert name.startswith(entry.name.split(",")[0]) or family == "llama_draft"
        load_model(write_checkpoint(tmp_path / family, family))


def test_the_mask_is_found_in_the_tokenizer_where_the_configuration_does_not_name_it(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, "Fast_dLLM_Qwen")
    assert read_config(folder)[0].mask_token_ids == (259,)
    (folder / "tokenizer.json").write_text("{}")
    (folder / "added_tokens.json").write_text('{"|<MASK>|": 260}')
    assert read_config(folder)[0].mask_token_ids == (260,)
    (folder / "added_tokens.json").unlink()
    with pytest.raises(CheckpointError, match=r"config\.json: mask_token_id: this field is missing"):
        read_config(folder)


def test_the_end_of_a_turn_is_found_wherever_a_checkpoint_names_it(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, "sdar")
    edit_config(folder, lambda config: config.update(eos_token_id=5))
    assert read_config(folder)[0].eos_token_ids == (5, 258)  # the tokenizer's <|im_end|>
    (folder / "generation_config.json").write_text('{"eos_token_id": [5, 6]}')
    assert read_config(folder)[0].eos_token_ids == (5, 6, 258)
    (folder / "generation_config.json").write_text('{"eos_token_id": "<end>"}')
    with pytest.raises(CheckpointError, match=r"generation_config\.json: eos_token_id: must be"):
        read_config(folder)


def test_a_mask_that_differs_from_the_published_one_is_used_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_checkpoint(tmp_path, "nemotron_labs_diffusion")
    read_config(folder)
    assert not caplog.records
    edit_config(folder, lambda config: config.update(mask_token_id=101))
    assert read_config(folder)[0].mask_token_ids == (101,)
    assert "published Nemotron-Labs-Diffusion has 100" in caplog.text


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_every_field_that_a_family_needs_is_named_when_it_is_missing(family: str, tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, family)
    complete = (folder / "config.json").read_text()
    config, named = read_config(folder)[0], set()
    for field in tiny_config(family):
        (folder / "config.json").write_text(complete)
        edit_config(folder, lambda raw, field=field: raw.pop(field))  # type: ignore[misc]
        try:
            # What has a default, as the published checkpoints of the family rely on it, changes no shape.
            assert read_config(folder)[0].num_layers == config.num_layers
        except CheckpointError as error:
            named.add((error.path.name, field, error.field))
    assert len(named) >= 8
    inside = {"rope_parameters": "rope_theta"}
    assert named == {("config.json", field, inside.get(field, field)) for _, field, _ in named}


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_every_missing_or_misshapen_tensor_is_named(family: str, tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, family)
    tensors = load_file(folder / WEIGHTS)
    for name in sorted(tensors)[:: max(1, len(tensors) // 12)]:
        save_file({other: tensor for other, tensor in tensors.items() if other != name}, folder / WEIGHTS)
        with pytest.raises(CheckpointError, match="is in none of") as missing:
            load_model(folder)
        assert (missing.value.path, missing.value.field) == (folder, name)
        save_file({**tensors, name: torch.zeros(*tensors[name].shape[:-1], 3)}, folder / WEIGHTS)
        with pytest.raises(CheckpointError, match=r"but config\.json asks for") as misshapen:
            load_model(folder)
        assert misshapen.value.path == folder / WEIGHTS
        assert name in (misshapen.value.field or "")


def test_rows_that_only_make_up_for_each_other_are_misshapen(tmp_path: Path) -> None:
    """A gate that is a row short beside an up-projection with one too many would join to the right shape."""
    folder = write_checkpoint(tmp_path, "sdar")
    tensors = load_file(folder / WEIGHTS)
    for name, rows in (("gate_proj", 63), ("up_proj", 65)):
        tensors[f"model.layers.0.mlp.{name}.weight"] = torch.zeros(rows, 32)
    save_file(tensors, folder / WEIGHTS)
    with pytest.raises(CheckpointError, match="gate_proj"):
        load_model(folder)


def test_a_missing_or_truncated_shard_is_named(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, "sdar")
    shard(folder)
    second = folder / SHARDS[1]
    content = second.read_bytes()
    for cut in (0, 4, 100, len(content) - 7):
        second.write_bytes(content[:cut])
        with pytest.raises(CheckpointError, match="damaged or truncated") as truncated:
            load_model(folder)
        assert truncated.value.path == second
    second.unlink()
    with pytest.raises(CheckpointError, match="no such file, but") as missing:
        load_model(folder)
    assert (missing.value.path, missing.value.field) == (second, "weight_map")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"weight_map": {}}', '{"weight_map": {"a": 1}}'])
def test_a_damaged_index_is_named(content: str, tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, "sdar")
    (folder / INDEX).write_text(content)
    with pytest.raises(CheckpointError) as error:
        load_model(folder)
    assert error.value.path == folder / INDEX


def test_integers_are_no_weights(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, "sdar")
    tensors = load_file(folder / WEIGHTS)
    tensors["lm_head.weight"] = tensors["lm_head.weight"].to(torch.int8)
    save_file(tensors, folder / WEIGHTS)
    with pytest.raises(CheckpointError, match="only float checkpoints") as error:
        load_model(folder)
    assert error.value.field == "lm_head.weight"


@pytest.mark.parametrize(
    ("family", "change", "says"),
    [
        ("sdar", {"model_type": "gpt2"}, "unknown family 'gpt2'; known: Dream,"),
        ("sdar", {"num_attention_heads": 3}, "num_kv_heads"),
        ("sdar", {"head_dim": 7}, "even"),
        ("sdar", {"num_hidden_layers": "two"}, ""),
        ("sdar", {"rope_scaling": {"rope_type": "longrope"}}, "rope_type 'longrope'"),
        ("sdar", {"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ("sdar", {"eos_token_id": 999}, "eos_token_ids: 999"),
        ("sdar", {"mask_token_id": -1}, "mask_token_ids: -1"),
        ("llama_draft", {"block_length": 9}, "exceeds the 8 masks"),
        ("llada", {"block_type": "sequential"}, "block_type 'sequential'"),
        ("llada2_moe", {"n_group": 3}, "3 groups must divide 8"),
        ("llada2_moe", {"topk_group": 5}, "groups_per_token"),
        ("llada2_moe", {"num_experts_per_tok": 7}, "experts: 7 a token"),
        ("llada2_moe", {"score_function": "softmax"}, "score_function 'softmax'"),
        ("nemotron_labs_diffusion", {"sliding_window": 128}, "sliding_window 128"),
    ],
)
def test_what_a_model_cannot_be_is_refused_by_name(
    family: str, change: dict[str, object], says: str, tmp_path: Path
) -> None:
    folder = write_checkpoint(tmp_path, family)
    edit_config(folder, lambda config: config.update(change))
    with pytest.raises(CheckpointError) as error:
        read_config(folder)
    assert error.value.path == folder / "config.json"
    assert says in str(error.value)


@pytest.mark.parametrize("content", ["", "{", "[1]", "\xff"])
def test_a_damaged_configuration_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content, encoding="latin-1")
    with pytest.raises(CheckpointError) as error:
        read_config(tmp_path)
    assert error.value.path == tmp_path / "config.json"


def test_a_folder_without_a_checkpoint_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is this a checkpoint folder"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(tiny_config("sdar")))
    with pytest.raises(CheckpointError, match=r"holds no \*\.safetensors"):
        load_model(tmp_path)
