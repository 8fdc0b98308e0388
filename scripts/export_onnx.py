#!/usr/bin/env python3
"""Writes an ONNX file from a directory of `reigen export --to hf`: python3 export_onnx.py HF_DIR FILE.onnx

The graph takes input_ids, attention_mask and decoder_input_ids (all [batch, length]) and returns
logits [batch, target length, vocabulary]. Needs torch, transformers and onnx; PyTorch's TorchScript
exporter is used because it writes batch and lengths as dynamic axes without further packages.
"""

import sys

import torch
from transformers import AutoModelForSeq2SeqLM


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, decoder_input_ids):
        return self.model(input_ids=input_ids, attention_mask=attention_mask,
                          decoder_input_ids=decoder_input_ids, use_cache=False).logits


def main():
    folder, file = sys.argv[1:]
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, attn_implementation="eager").eval()
    ids = torch.tensor([[5, 6, 7, 1], [8, 9, 1, model.config.pad_token_id]])
    start = torch.full((2, 3), model.config.decoder_start_token_id)
    names = ["input_ids", "attention_mask", "decoder_input_ids"]
    axes = {name: {0: "batch", 1: "target" if "decoder" in name else "source"} for name in names}
    axes["logits"] = {0: "batch", 1: "target"}
    torch.onnx.export(Logits(model), (ids, (ids != model.config.pad_token_id).long(), start), file,
                      input_names=names, output_names=["logits"], dynamic_axes=axes,
                      opset_version=17, dynamo=False)
    print(f"wrote {file}")


if __name__ == "__main__":
    main()
