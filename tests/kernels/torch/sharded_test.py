#!/usr/bin/env python3
"""Patched models under DistributedDataParallel and FSDP2: two processes over Gloo train as one does."""
import os, socket, unittest

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import coxswain_kernels as ck
from patch_test import DEVICE, batch, tiny

STEPS = 3


def losses(model, rank, ranks):
    """Of the rows of this rank; their mean over ranks is the loss of the batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model.train()
    out = []
    for _ in range(STEPS):
        ids = batch(2)[0][rank::ranks]
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        out.append(loss.detach().clone())
    return torch.stack(out)


def worker(rank, port, way, queue):
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port))
    dist.init_process_group('gloo', rank=rank, world_size=2)
    model = ck.patch(tiny('Llama'))
    if way == 'ddp':
        model = torch.nn.parallel.DistributedDataParallel(model)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh('cpu', (2,))
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    mine = losses(model, rank, 2)
    dist.all_reduce(mine)
    if rank == 0:
        queue.put((mine / 2).tolist())
    dist.destroy_process_group()
    os._exit(0)  # torch 2.11 aborts now and then where Gloo's threads meet the end of the process


@unittest.skipIf(DEVICE != 'cpu', 'one GPU a process')
class ShardedTest(unittest.TestCase):
    def test_two_processes_train_as_one(self):
        want = losses(tiny('Llama'), 0, 1).tolist()
        for way in ('ddp', 'fsdp2'):
            with self.subTest(way), socket.socket() as free:
                free.bind(('127.0.0.1', 0))
                port = free.getsockname()[1]
                free.close()
                queue = mp.get_context('spawn').SimpleQueue()
                mp.spawn(worker, (port, way, queue), nprocs=2)
                for a, b in zip(want, queue.get()):
                    self.assertLess(abs(a - b) / a, 1e-5)


if __name__ == '__main__':
    unittest.main()
