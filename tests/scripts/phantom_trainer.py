"""Trainer of transformers with LoRA, gradient checkpointing and mixed precision."""

import sys

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Tokens(Dataset):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict:
        tokens = torch.randint(0, 500, (32,))
        return {"input_ids": tokens, "labels": tokens, "attention_mask": torch.ones_like(tokens)}


config = LlamaConfig(
    hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, vocab_size=500
)
model = get_peft_model(LlamaForCausalLM(config), LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
model.enable_input_require_grads()
arguments = TrainingArguments(
    sys.argv[1], per_device_train_batch_size=4, gradient_accumulation_steps=2, bf16=True, logging_steps=1,
    gradient_checkpointing=True, save_steps=2, report_to=[], max_steps=6, dataloader_num_workers=1,
)  # fmt: skip
Trainer(model=model, args=arguments, train_dataset=Tokens()).train()
