#!/usr/bin/env python3
"""How far the held-back loss falls under transformers + peft, on the quickstart's data and settings.

  reference.py [--seeds N] [--output reference.json]     needs torch, transformers, peft (CPU or one GPU)

Float32. Documents are rendered and masked as job.yaml says (alpaca prompt, answer and end-of-text
trained), shuffled by seed, packed first-fit into bins of 512 tokens, four bins a step; each document is
run by itself, so nothing leaks between documents. AdamW, decoupled weight decay 0.01 on every trainable
tensor, clip 1.0, cosine schedule with linear warm-up over 4 of 40 steps. Held-back loss = sum of target
losses / targets over all 200 records. The committed reference.json holds the mean and every seed.
"""
import argparse, json, math, os, random
import torch, transformers, peft
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
CAPACITY, BINS, STEPS, WARMUP = 512, 4, 40, 4
PROMPT = ('Below is an instruction that describes a task. Write a response that appropriately completes '
          'the request.\n\n### Instruction:\n{}\n\n### Response:\n')
METHODS = {  # name: (lora settings or None, learning rate, LoRA+ ratio)
    'lora_plus': (dict(r=32, lora_alpha=64), 2e-4, 16.0),
    'lora': (dict(r=32, lora_alpha=64), 1e-3, 1.0),
    'full': (None, 5e-4, 1.0),
}


def documents(name, tokenizer):
    out = []
    for line in open(os.path.join(HERE, name), encoding='utf-8'):
        record = json.loads(line)
        prompt = tokenizer(PROMPT.format(record['instruction']), add_special_tokens=False).input_ids
        answer = tokenizer(record['output'], add_special_tokens=False).input_ids + [tokenizer.eos_token_id]
        ids = (prompt + answer)[:CAPACITY]
        labels = ([-100] * len(prompt) + answer)[:CAPACITY]
        if any(l != -100 for l in labels[1:]):
            out.append((ids, labels))
    return out


def steps(train, seed):
    order = list(range(len(train)))
    random.Random(seed).shuffle(order)
    bins = []
    for i in order:
        length = len(train[i][0])
        for b in bins:
            if b[0] + length <= CAPACITY:
                b[0] += length
                b[1].append(i)
                break
        else:
            bins.append([length, [i]])
    bins = [b[1] for b in bins]
    return [sum(bins[s * BINS:(s + 1) * BINS], []) for s in range(STEPS)]


def loss_sum(model, docs, device):
    """Sum of target losses and number of targets; right padding under a causal mask changes nothing."""
    width = max(len(d[0]) for d in docs)
    ids = torch.tensor([d[0] + [0] * (width - len(d[0])) for d in docs], device=device)
    labels = torch.tensor([d[1] + [-100] * (width - len(d[1])) for d in docs], device=device)
    mask = torch.tensor([[1] * len(d[0]) + [0] * (width - len(d[0])) for d in docs], device=device)
    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
    target = labels[:, 1:]
    total = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1),
                                              ignore_index=-100, reduction='sum')
    return total, int((target != -100).sum())


def held_out_loss(model, held, device):
    model.eval()
    with torch.no_grad():
        parts = [loss_sum(model, held[i:i + 20], device) for i in range(0, len(held), 20)]
    model.train()
    return sum(p[0].item() for p in parts) / sum(p[1] for p in parts)


def run(method, seed, train, held, device):
    lora, lr, ratio = METHODS[method]
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_pretrained(os.path.join(HERE, 'model'), dtype=torch.float32).to(device)
    if lora:
        model = peft.get_peft_model(model, peft.LoraConfig(target_modules='all-linear', lora_dropout=0.0,
                                                           task_type='CAUSAL_LM', **lora))
    trainable = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    groups = [dict(params=[p for n, p in trainable if 'lora_B' not in n], lr=lr),
              dict(params=[p for n, p in trainable if 'lora_B' in n], lr=lr * ratio)]
    optimizer = torch.optim.AdamW([g for g in groups if g['params']], weight_decay=0.01)
    base = [g['lr'] for g in optimizer.param_groups]
    before = held_out_loss(model, held, device)
    for s, batch in enumerate(steps(train, seed)):
        docs = [train[i] for i in batch]
        factor = (s + 1) / WARMUP if s < WARMUP else 0.5 * (1 + math.cos(math.pi * (s - WARMUP) / (STEPS - WARMUP)))
        for g, b in zip(optimizer.param_groups, base):
            g['lr'] = b * factor
        total, count = loss_sum(model, docs, device)
        (total / count).backward()
        torch.nn.utils.clip_grad_norm_([p for _, p in trainable], 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return before, held_out_loss(model, held, device)


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--seeds', type=int, default=5)
    parser.add_argument('--output', default=os.path.join(HERE, 'reference.json'))
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    tokenizer = AutoTokenizer.from_pretrained(os.path.join(HERE, 'model'))
    train, held = documents('train.jsonl', tokenizer), documents('held_out.jsonl', tokenizer)
    result = dict(made_with=dict(torch=torch.__version__, transformers=transformers.__version__, peft=peft.__version__),
                  documents=len(train), held_out_documents=len(held), held_out_targets=sum(sum(l != -100 for l in d[1][1:]) for d in held),
                  methods={})
    for method in METHODS:
        runs = [run(method, seed, train, held, device) for seed in range(args.seeds)]
        falls = [b - a for b, a in runs]
        result['methods'][method] = dict(before=runs[0][0], after=[a for _, a in runs], mean_fall=sum(falls) / len(falls),
                                         smallest_fall=min(falls), largest_fall=max(falls))
        print(method, json.dumps(result['methods'][method]), flush=True)
    json.dump(result, open(args.output, 'w'), indent=1)
