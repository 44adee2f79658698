"""Hugging Face Trainer: a language model fine-tuned on text, with checkpoints from which it resumes.

Model, tokenizer and text are made on the spot, so that nothing is downloaded. With --model it starts from the Hub.

Without a cluster, in a checkout:
PYTHONPATH=. torchrun --nproc-per-node 2 examples/transformers/train.py --state /tmp/transformers
"""

from __future__ import annotations

import argparse
import json
import os
import random
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    GPT2Config,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)

from gpucluster_train.flops import Speed, per_token

NODES = ("head", "gpu", "login", "storage")
STATES = {"busy": "waits for its jobs", "idle": "stops soon", "down": "is replaced"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fine-tune a language model with the Trainer.")
    parser.add_argument(
        "--model", default="", metavar="NAME", help="of the Hub, or a folder; default: a tiny one, untrained"
    )
    parser.add_argument("--text", type=Path, help="a file, one document a line; default: sentences made up")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--save-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--batch", type=int, default=32, help="documents of a step, of all ranks together")
    parser.add_argument("--length", type=int, default=32, help="tokens of a document")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--compile", choices=("none", "model"), default="none", help="takes a minute or more")
    parser.add_argument("--recompute", choices=("none", "layers"), default="none", help="saves memory, costs time")
    parser.add_argument("--state", type=Path, default=Path(os.environ.get("GPUCLUSTER_STATE", "state")))
    return parser.parse_args()


def documents(file: Path | None) -> list[str]:
    if file:
        return file.read_text(encoding="utf-8").splitlines()
    draw = random.Random(0)
    chosen = [(draw.choice(NODES), draw.randrange(32), draw.choice(list(STATES))) for _ in range(2048)]
    return [f"node {kind} {number} is {state} and {STATES[state]}" for kind, number, state in chosen]


def tokenizer_of(name: str, text: list[str]) -> PreTrainedTokenizerBase:
    if name:
        found = AutoTokenizer.from_pretrained(name)
        found.pad_token = found.pad_token or found.eos_token
        return found
    words = Tokenizer(models.WordLevel(unk_token="<unknown>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.train_from_iterator(
        text, trainers.WordLevelTrainer(special_tokens=["<unknown>", "<end>"], show_progress=False)
    )
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unknown>", eos_token="<end>", pad_token="<end>")


def model_of(name: str, tokenizer: PreTrainedTokenizerBase, length: int) -> PreTrainedModel:
    if name:
        return AutoModelForCausalLM.from_pretrained(name)
    sizes = {"n_positions": length, "n_embd": 64, "n_layer": 2, "n_head": 4}
    none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    end = tokenizer.eos_token_id
    config = GPT2Config(vocab_size=len(tokenizer), bos_token_id=end, eos_token_id=end, **sizes, **none)
    return AutoModelForCausalLM.from_config(config)


class SpeedReport(TrainerCallback):
    """Prints the tokens per second since the last report, without padding, and the share of the GPUs' peak."""

    def __init__(self, model: PreTrainedModel, length: int, ranks: int) -> None:
        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
        self.speed, self.seen = Speed(flops_per_token(model, length), gpu, ranks), 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **more: Any
    ) -> None:
        self.seen = state.num_input_tokens_seen
        self.speed.report()  # what came before is not training

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: dict[str, Any], **more: Any
    ) -> None:
        if "loss" not in logs:
            return
        self.speed.add(state.num_input_tokens_seen - self.seen)
        self.seen, said = state.num_input_tokens_seen, self.speed.report()
        if state.is_world_process_zero:
            print(f"step {state.global_step}: loss {float(logs['loss']):.4f}, {said}", flush=True)


def flops_per_token(model: PreTrainedModel, length: int) -> float:
    """Where the output has the embedding's weights, they are counted: a matrix is multiplied by them."""
    config = model.config
    looked_up = 0 if config.tie_word_embeddings else model.get_input_embeddings().weight.numel()
    heads = config.num_attention_heads
    width = heads * (getattr(config, "head_dim", None) or config.hidden_size // heads)
    return per_token(model.num_parameters() - looked_up, config.num_hidden_layers, width, length)


def newest_checkpoint(folder: Path) -> Path | None:
    """The newest that is complete: trainer_state.json is written last."""
    complete = {int(each.parent.name.partition("-")[2]): each.parent for each in folder.glob("*-*/trainer_state.json")}
    return complete[max(complete)] if complete else None


def train(options: argparse.Namespace) -> None:
    ranks, cuda = int(os.environ.get("WORLD_SIZE", "1")), torch.cuda.is_available()
    set_seed(0)
    text = documents(options.text)
    tokenizer = tokenizer_of(options.model, text)
    model = model_of(options.model, tokenizer, options.length)
    tokens = [tokenizer(f"{line} {tokenizer.eos_token}", truncation=True, max_length=options.length) for line in text]
    settings = TrainingArguments(
        output_dir=str(options.state),
        max_steps=options.steps,
        per_device_train_batch_size=options.batch // ranks,
        learning_rate=options.learning_rate,
        lr_scheduler_type="constant",  # one that falls to 0 at the last step would differ when there are more steps
        bf16=cuda,
        optim="adamw_torch_fused" if cuda else "adamw_torch",
        torch_compile=options.compile == "model",
        gradient_checkpointing=options.recompute == "layers" or None,
        include_num_input_tokens_seen="non_padding",
        use_cpu=not cuda,  # without GPUs it must be told: each rank would train alone
        save_steps=options.save_every,
        save_total_limit=2,
        logging_steps=options.save_every,
        disable_tqdm=True,
        report_to="none",
        seed=0,
    )
    report = SpeedReport(model, options.length, ranks)
    trainer = Trainer(
        model=model,
        callbacks=[report],
        args=settings,
        train_dataset=tokens,
        eval_dataset=tokens[:256],
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
    )
    checkpoint = newest_checkpoint(options.state)
    resumed_from = int(checkpoint.name.partition("-")[2]) if checkpoint else 0
    before = trainer.evaluate()["eval_loss"]
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    done = {"loss": round(trainer.evaluate()["eval_loss"], 4), "untrained": round(before, 4)}
    done |= {"throughput": report.speed.throughput, "mfu": report.speed.mfu}
    done |= {"steps": trainer.state.global_step, "resumed_from": resumed_from, "world_size": ranks}
    if trainer.is_world_process_zero():
        print(json.dumps(done), flush=True)


def main() -> None:
    train(arguments())
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
