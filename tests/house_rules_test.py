#!/usr/bin/env python3
"""Rules of the house that a script can see. Prints every violation; exit 1 when there is one.

  tests/house_rules_test.py        run from anywhere
"""
import os, re, sys

from tracked_files import ROOT, tracked

SOURCE = ('.cc', '.h', '.cu', '.cuh', '.proto', '.py', '.sh', '.cmake')
FOLDERS = ['common', 'common/config', 'common/files', 'common/foreign_keys', 'common/hub', 'common/model', 'common/net', 'common/web', 'controller', 'controller/api', 'controller/checkpoint', 'controller/cli', 'controller/cli/import', 'controller/data', 'controller/driver', 'controller/export', 'controller/failure', 'controller/folders', 'controller/gang', 'controller/incidents', 'controller/planner', 'controller/runtime', 'controller/scheduler', 'controller/state', 'controller/status_page', 'controller/text', 'controller/text/jinja', 'controller/text/tokenizer',
           'controller/store', 'controller/trackers', 'controller/transport', 'controller/uploads', 'worker', 'worker/agent', 'worker/comm', 'worker/engine', 'worker/supervisor', 'kernels', 'kernels/torch',
           'proto', 'deploy', 'tests', 'bench']
# Invariant engine-9. Kernels and engine throw to one catch; Gloo throws to the two where it is entered (worker/comm/README.md).
# The C ABI turns exceptions into codes; a failed capture is ended before its exception goes on (kernels/device.h).
NO_CATCH = ('kernels/', 'worker/engine/', 'worker/comm/')
MAY_CATCH = {'worker/engine/commands/executor.cc', 'worker/comm/gloo.cc', 'kernels/c_api/calls.cc', 'kernels/cuda/device.cc'}
# Whatever may be thrown becomes a status in one place (invariant controller-7): a catch of everything elsewhere would hide which
# job an error is of. The library of columnar files is loaded at run time and links nothing of ours.
CATCH_ALL = re.compile(r'\bcatch *\((\.\.\.|const std::(exception|bad_alloc)&)')
MAY_CATCH_ALL = {'common/guarded.cc', 'controller/data/columnar/library.cc'}
# "Invariant" or "Invariants", then ids with commas or "and" between them, each perhaps with a remark in brackets.
CITATION = re.compile(r'[Ii]nvariants?((?:[\s,/#:]|and|\([^)]*\)|[a-z]+-\d+)+)')
SLOW_HEADERS = re.compile(r'#include *[<"](torch/torch\.h|torch/extension\.h|ATen/ATen\.h|regex)[>"]')
# A model's family is data: what plans, schedules, drives and computes names none (common/model/families do).
FAMILY = re.compile(r'\b(Llama|Qwen|Mistral|Ministral|Gemma|Phi|SmolLM|Granite|Cohere|InternLM|Olmo|Starcoder|Glm)\d*(ForCausalLM)?\b')
KNOWS_NO_FAMILY = ('common/', 'controller/planner/', 'controller/driver/', 'controller/failure/', 'controller/gang/', 'controller/scheduler/', 'worker/', 'kernels/')
MAY_NAME_FAMILIES = ('common/model/families/', 'common/foreign_keys/')
# Plain structs and extents of device memory, by which the planner lays out buffers.
RECORDS = re.compile('#include "kernels/(attention/fp8_attention|loss/(document|policy|score)_loss|tensor_records|quantize/quantized_formats).h"')
SIZES_RECORDS = ('common/plan/', 'controller/planner/')
# The generator of random numbers is one for host and device.
GENERATOR = ('common/philox.h', '#include "kernels/philox.h"')
# Arrows between the rooms of the controller (controller/README.md); `cli` is a client and has none here.
ROOMS = {
    'access': {'store'}, 'api': {'access', 'checkpoint', 'driver', 'failure', 'incidents', 'planner', 'scheduler', 'sources', 'store', 'uploads'}, 'checkpoint': set(), 'data': {'text'},
    'driver': {'checkpoint', 'data', 'export', 'failure', 'gang', 'incidents', 'planner', 'scheduler', 'sources', 'state', 'store', 'trackers', 'transport'},
    'export': {'data', 'text'}, 'failure': {'state'}, 'folders': set(), 'gang': {'failure', 'scheduler', 'state', 'transport'}, 'incidents': {'failure', 'gang'},
    'planner': {'data', 'text'}, 'runtime': {'state'}, 'scheduler': {'state', 'transport'}, 'sources': {'data'}, 'state': set(), 'status_page': {'api', 'gang', 'state'}, 'store': set(), 'text': set(), 'trackers': {'store'}, 'transport': set(), 'uploads': set(),
}
# What every room but themselves may include: the first may include the second.
BELOW = ('folders', 'runtime')
# The driver reaches data and planner through its lanes, and what a preparation leaves.
PREPARES = re.compile(r'controller/driver/(preparation/lane_work|job/job_preparation|training/(recipe|prompt)_curriculum)\.')
# The one spelling of the names of buffers. A name with a dot is nothing else; a word may be, outside the rooms that ask for rows.
BUFFER_NAMES = 'common/plan/buffer_names.h'
NAMES_BUFFERS = ('common/', 'controller/', 'worker/')
ASKS_FOR_BUFFERS = re.compile(r'common/plan/(buffers/|optimizer_states)|controller/planner/memory/|worker/engine/(?!engine\.cc)')
SPELLS_BUFFER = re.compile(r'\b(?:Row|Some|Alias|Put|Set|At|Bind|HoldHost|Shrink)\((?:MemoryClass::\w+, *)?\{?"([^"]*)"')
NARRATION = re.compile(r'(//|#) *(NEW|FIX|FIXED|UPDATED|HACK|XXX|TODO|FIXME)\b|as requested|previously,|for now\b')


def read(path):
    with open(os.path.join(ROOT, path), encoding='utf-8', errors='replace') as f:
        return f.read()


def file_rules(path, text):
    lines = text.count('\n')
    limit = 800 if path.startswith('tests/') else 600
    if lines > limit:
        yield f'{lines} lines, limit {limit}: split by concept'
    if NARRATION.search(text) and path != 'tests/house_rules_test.py':
        yield f'narrating or postponing comment: {NARRATION.search(text).group(0)!r}'
    if path.endswith(('.h', '.cuh')) and not path.endswith('.pb.h'):
        guard = 'COXSWAIN_' + re.sub(r'[/.]', '_', path).upper() + '_'
        if f'#ifndef {guard}' not in text:
            yield f'include guard is not {guard}'
        if re.search(r'^using namespace', text, re.M):
            yield 'using namespace in a header'
    if SLOW_HEADERS.search(text) and not path.startswith(('tests/reference/', 'tests/kernels/torch/')):
        yield f'slow header {SLOW_HEADERS.search(text).group(1)}'
    if '.pb.h"' in text and re.search(r'#include <(ATen|c10|torch)/', text):
        yield 'includes both protobuf and ATen'
    if path.endswith(('.cc', '.h', '.cu', '.cuh')):
        if path.startswith('controller/') and re.search(r'#include <(ATen|c10|torch|cuda)', text):
            yield 'controller includes libtorch or CUDA'
        if path.startswith('kernels/') and re.search(r'#include "(?!kernels/)', text):
            yield 'kernels include something of ours'
        if path.startswith('worker/engine/') and re.search(r'#include "[^"]*\.pb\.h"|#include <(ATen|torch)/', text):
            yield 'engine includes protobuf or ATen'
        below = RECORDS.sub('', text) if path.startswith(SIZES_RECORDS) else text
        if path == GENERATOR[0]:
            below = below.replace(GENERATOR[1], '')
        if not path.startswith(('worker/', 'kernels/', 'tests/', 'bench/')) and re.search(r'#include "(worker|kernels)/', below):
            yield 'arrow against the house: includes worker or kernels'
        if not path.startswith(('controller/', 'tests/', 'bench/')) and re.search(r'#include "controller/', text):
            yield 'arrow against the house: includes controller'
        yield from room_rules(path, text)
        if path.startswith(KNOWS_NO_FAMILY) and not path.startswith(MAY_NAME_FAMILIES):
            named = FAMILY.search(re.sub(r'//.*', '', text))
            if named:
                yield f'names the model family {named.group(0)}, which only common/model/families does'
        if path.startswith(NO_CATCH) and re.search(r'\bcatch *\(', text) and path not in MAY_CATCH:
            yield f'catch outside {" and ".join(sorted(MAY_CATCH))}'
        if path.startswith(('common/', 'controller/')) and CATCH_ALL.search(text) and path not in MAY_CATCH_ALL:
            yield f'catches everything outside {" and ".join(sorted(MAY_CATCH_ALL))}'


def room_rules(path, text):
    room = re.match(r'controller/(\w+)/', path)
    if not room or room[1] not in ROOMS:
        return
    below = {'runtime': set(), 'folders': {'runtime'}}.get(room[1], set(BELOW))
    for other in sorted(set(re.findall(r'#include "controller/(\w+)/', text)) - ROOMS[room[1]] - {room[1]} - below):
        yield f'arrow against the house: room {room[1]} includes room {other}'
    if room[1] == 'driver' and re.search(r'#include "controller/(data|planner)/', text) and not PREPARES.match(path):
        yield 'includes data or planner, which only the preparation of a job does'


def folder_rules(files):
    """A folder that a reader can take in: at most so many C++ files directly in it."""
    count = {}
    for path in files:
        if path.endswith(('.cc', '.h', '.cu', '.cuh')):
            count[os.path.dirname(path)] = count.get(os.path.dirname(path), 0) + 1
    for folder, number in sorted(count.items()):
        if number > 40:
            yield f'{folder}: {number} C++ files, limit 40: make rooms'


def buffer_names(text):
    return set(re.findall(r'\[\] = "([^"]+)";', text))


def buffer_name_rules(path, text, names):
    """Names of buffers that code spells instead of naming its constant."""
    if path == BUFFER_NAMES or not path.startswith(NAMES_BUFFERS) or not path.endswith(('.cc', '.h')):
        return
    asks = ASKS_FOR_BUFFERS.match(path)
    code = re.sub(r'//.*', '', text)
    spelled = {name for name in re.findall(r'"([^"\n]*)"', code) if name in names and ('.' in name or asks)}
    if asks:
        spelled.update(SPELLS_BUFFER.findall(code))
    for name in sorted(spelled):
        yield f'spells the buffer "{name}", whose name {BUFFER_NAMES} has'


def declared_invariants(path, text):
    """Items of a README's list of invariants: `3. data-3: ...`, `- **cli-3** ...`, or `3. ...` in the room's name."""
    section = re.search(r'^(?:## )?Invariants\b.*\n((?:(?!## ).*\n?)*)', text, re.M)
    for number, name in re.findall(r'^(?:(\d+)\.|- \*\*)[ ]?([a-z]+-\d+)?', section[1] if section else '', re.M):
        yield name or f'{os.path.basename(os.path.dirname(path))}-{number}'


def invariant_rules(files):
    declared, cited = {}, {}
    for path in files:
        if os.path.basename(path) == 'README.md':
            declared.update({name: path for name in declared_invariants(path, read(path))})
        elif path.startswith(('tests/', 'bench/')):
            for names in CITATION.findall(read(path)):
                cited.update({name: path for name in re.findall(r'[a-z]+-\d+', re.sub(r'\([^)]*\)', '', names))})
    for name in sorted(declared.keys() - cited.keys()):
        yield f'{declared[name]}: no test cites {name}'
    for name in sorted(cited.keys() - declared.keys()):
        yield f'{cited[name]}: cites {name}, which no README declares'


def main():
    bad = []
    files = tracked()
    names = buffer_names(read(BUFFER_NAMES))
    for path in files:
        if path.endswith(SOURCE) or os.path.basename(path) == 'CMakeLists.txt':
            bad += [f'{path}: {message}' for message in file_rules(path, read(path))]
            bad += [f'{path}: {message}' for message in buffer_name_rules(path, read(path), names)]
    bad += invariant_rules(files)
    bad += folder_rules(files)
    for folder in FOLDERS:
        readme = f'{folder}/README.md'
        if readme not in files:
            bad.append(f'{readme}: missing')
    print('\n'.join(bad) or f'{len(files)} files keep the house rules')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
