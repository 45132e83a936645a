"""The shape of Llama 2 7B: bf16, LoRA, checkpointing, batch 4 × 2,048 tokens. Needs transformers, peft.

A script to record, by path; nothing is downloaded. The model is made on the GPU.
"""

import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 3
torch.manual_seed(0)
config = LlamaConfig(max_position_embeddings=4096)  # the defaults are those of the 7B model
torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    model = LlamaForCausalLM(config)
torch.set_default_dtype(torch.float32)
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
model.enable_input_require_grads()
model = get_peft_model(model, LoraConfig(r=16, target_modules=["q_proj", "v_proj"]))
optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-4)
for step in range(steps):
    tokens = torch.randint(0, 32000, (4, 2048), device="cuda")
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(step, loss.item(), flush=True)
