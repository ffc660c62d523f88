#!/usr/bin/env python3
"""Patched models, and models composed of the modules, under DistributedDataParallel and FSDP2: two processes train as
one does. On a CPU they speak over Gloo. With COXSWAIN_TORCH_DEVICE=cuda they are a process for each of two GPUs, over
NCCL; with fewer GPUs the test skips itself. On a machine with two GPUs, with the wheel in .carry/wheels:

  bench/device.sh --torch
"""
import os, socket, unittest

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import coxswain_kernels as ck
from layers_test import compose
from patch_test import DEVICE, batch, tiny

STEPS = 3
LENGTHS = (9, 9, 15, 15)  # of documents: both ranks get as many targets


def patched():
    return ck.patch(tiny('Llama')).train()


def composed():
    """A dense layer whose queries have an adapter, and a mixture of experts."""
    torch.manual_seed(1)
    decoder = compose.Decoder()
    first, second = decoder.model.layers
    first.self_attn.q_proj = ck.LoraLinear.of(first.self_attn.q_proj)
    second.mlp = ck.SparseMoeBlock(64, 48, 5, 2)
    return decoder.to(DEVICE)


def loss_of_patched(model, rank, ranks):
    ids = batch(2)[0][rank::ranks]
    return model(input_ids=ids, labels=ids, use_cache=False).loss


def loss_of_composed(model, rank, ranks):
    random = torch.Generator().manual_seed(2)
    documents = [torch.randint(97, (length,), generator=random) for length in LENGTHS]
    inputs = compose.pack(documents[rank::ranks])
    return model(*(x.to(DEVICE) if isinstance(x, torch.Tensor) else x for x in inputs))


MODELS = {'patched': (patched, loss_of_patched, lambda: tiny('Llama').train()),
          'composed': (composed, loss_of_composed, composed)}  # made, its loss, and what one process trains


def train(model, loss_of, rank, ranks):
    """Losses of what this rank has; their mean over ranks is the loss of the whole."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    out = []
    for _ in range(STEPS):
        loss = loss_of(model, rank, ranks)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        out.append(loss.detach().clone())
    return torch.stack(out)


def shard(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh(DEVICE, (2,))
    for layer in model.model['layers'] if isinstance(model.model, torch.nn.ModuleDict) else model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def refusal_of_adamw(model, loss_of, rank):
    loss_of(model, rank, 2).backward()
    try:
        ck.AdamW(model.parameters()).step()
    except TypeError as error:
        return str(error)
    return ''


def worker(rank, port, way, name, queue):
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port))
    if DEVICE == 'cuda':
        torch.cuda.set_device(rank)
    dist.init_process_group('nccl' if DEVICE == 'cuda' else 'gloo', rank=rank, world_size=2)
    make, loss_of, _ = MODELS[name]
    model = make()
    if way == 'ddp':
        model = torch.nn.parallel.DistributedDataParallel(model)
    else:
        shard(model)
    mine = train(model, loss_of, rank, 2)
    dist.all_reduce(mine)
    refusal = refusal_of_adamw(model, loss_of, rank) if way == 'fsdp2' else ''
    if rank == 0:
        queue.put(((mine / 2).tolist(), refusal))
    dist.destroy_process_group()
    os._exit(0)  # torch 2.11 aborts now and then where Gloo's threads meet the end of the process


def two_processes(way, name):
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    queue = mp.get_context('spawn').SimpleQueue()
    mp.spawn(worker, (port, way, name, queue), nprocs=2)
    return queue.get()


@unittest.skipIf(DEVICE == 'cuda' and torch.cuda.device_count() < 2, 'a process for each of two GPUs')
class ShardedTest(unittest.TestCase):
    def test_two_processes_train_as_one(self):
        for name, (_, loss_of, make) in MODELS.items():
            want = train(make(), loss_of, 0, 1).tolist()
            self.assertLess(want[-1], want[0])
            for way in ('ddp', 'fsdp2'):
                with self.subTest(name, way=way):
                    got, refusal = two_processes(way, name)
                    for a, b in zip(want, got):
                        self.assertLess(abs(a - b) / a, 1e-5)
                    self.assertEqual('the parameters are shards' in refusal, way == 'fsdp2')


if __name__ == '__main__':
    unittest.main()
