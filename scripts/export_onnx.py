#!/usr/bin/env python3
"""Writes an ONNX file from a directory of `reigen export --to hf`: python3 export_onnx.py HF_DIR FILE.onnx --check

The graph takes input_ids, attention_mask and decoder_input_ids (all [batch, length], int64) and returns logits [batch,
target length, vocabulary]; batch and lengths are free. Needs torch, transformers, onnx and onnxscript. With --check,
onnxruntime computes logits of other batches and lengths than those of the export, and the script fails where one
differs from transformers by more than 1e-4: files of PyTorch's older TorchScript exporter, which needs no onnxscript,
differ by up to 8 (PyTorch 2.11).
"""

import argparse
import sys

import torch
from transformers import AutoModelForSeq2SeqLM

NAMES = ["input_ids", "attention_mask", "decoder_input_ids"]


class Logits(torch.nn.Module):
    """The model with masks made here, from all of the batch's lengths."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, decoder_input_ids):
        least = torch.finfo(torch.float32).min
        source_mask = (1 - attention_mask[:, None, None, :].float()) * least
        place = torch.cumsum(torch.ones_like(decoder_input_ids), 1)
        causal_mask = (place[:, None, None, :] > place[:, None, :, None]).float() * least
        return self.model(input_ids=input_ids, attention_mask=source_mask, decoder_input_ids=decoder_input_ids,
                          decoder_attention_mask=causal_mask, use_cache=False).logits


def batch_of(model, sentences, source_length, target_length, seed):
    """Random ids; each sentence but the first is shorter than the one before it, and padded."""
    generator = torch.Generator().manual_seed(seed)
    target_pieces = model.get_output_embeddings().weight.shape[0]
    source = torch.randint(model.config.vocab_size, (sentences, source_length), generator=generator)
    mask = torch.ones_like(source)
    for i in range(sentences):
        length = max(1, source_length - i)
        source[i, length - 1] = model.config.eos_token_id
        source[i, length:] = model.config.pad_token_id
        mask[i, length:] = 0
    target = torch.randint(target_pieces, (sentences, target_length), generator=generator)
    target[:, 0] = model.config.decoder_start_token_id
    return source, mask, target


def export(model, file):
    example = batch_of(model, 2, 4, 3, seed=0)
    axes = [{0: torch.export.Dim("batch"), 1: torch.export.Dim("target" if "decoder" in name else "source")}
            for name in NAMES]
    torch.onnx.export(Logits(model), example, file, input_names=NAMES, output_names=["logits"], dynamic_shapes=axes,
                      dynamo=True)


@torch.no_grad()
def largest_difference(model, file):
    """Of a logit, between onnxruntime and transformers with its own masks."""
    import onnxruntime  # only --check needs it
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    worst = 0.0
    for seed, shape in enumerate([(1, 1, 1), (1, 9, 2), (3, 7, 12), (5, 12, 5)], start=1):
        ids, mask, target = batch_of(model, *shape, seed)
        found = session.run(["logits"], {"input_ids": ids.numpy(), "attention_mask": mask.numpy(),
                                         "decoder_input_ids": target.numpy()})[0]
        wanted = model(input_ids=ids, attention_mask=mask, decoder_input_ids=target, use_cache=False).logits
        worst = max(worst, (torch.from_numpy(found) - wanted).abs().max().item())
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", metavar="HF_DIR")
    parser.add_argument("file", metavar="FILE.onnx")
    parser.add_argument("--check", action="store_true", help="compare with transformers by onnxruntime")
    o = parser.parse_args()
    model = AutoModelForSeq2SeqLM.from_pretrained(o.folder, attn_implementation="eager").eval()
    export(model, o.file)
    print(f"wrote {o.file}")
    if not o.check:
        return
    worst = largest_difference(model, o.file)
    print(f"largest difference of a logit: {worst:.1e}")
    if not worst <= 1e-4:
        sys.exit("error: the ONNX file computes something else")


if __name__ == "__main__":
    main()
