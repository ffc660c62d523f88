#!/usr/bin/env python3
"""Every op of the headers of kernels has its function in the C ABI (kernels/c_api/c_api.h), and every function its definition, a test
against the op, and a call from the ops of kernels/torch, or a reason why torch needs none.

An op is a function of a header that takes the stream, or that says how many bytes of workspace such a function needs.
Prints what is missing; exit 1 when something is.
"""
import glob, os, re, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NO_CONTRACTS = ('c_api', 'cpu', 'cuda', 'torch')  # folders of kernels whose headers are no contracts of ops
# Headers without an op for others, and why.
NOT_OPS = {
    'device.h': 'a caller has memory, streams and graphs of its own; coxswain_select_device chooses the device',
    'cut_panels.h': 'parts of cut_cross_entropy.h', 'lora_base.h': 'parts of lora_linear.h and lora_gated_linear.h',
    'plain_products.h': 'parts of gated_linear.h and rotated_linear.h, which launch them where no fused kernel is faster',
    'plain_grouped_gated_linear.h': 'a part of grouped_gated_linear.h, which launches it where no fused kernel runs',
    'gradient_sum.h': "a caller adds the gradients of its micro-steps itself: those of the ops are float32 or of one",
    'summed_product.h': 'as gradient_sum.h',
    'fp8_history.h': 'a caller keeps what it observed in its steps itself; fp8_quantize observes and takes what is expected',
}
# Functions whose name in C is not their own in snake_case.
NAMES = {
    'AddRmsNormForward': 'rms_norm_forward',  # with a residual
    'AdamW': 'adamw',
    'AdamW8bit': 'adamw_8bit',
}
LAUNCHER = re.compile(r'^[\w:]+ (\w+)\([^()]*\bStream\* stream\);', re.M)
WORKSPACE = re.compile(r'^int64_t (\w+WorkspaceBytes)\([^()]*\);', re.M)
FUNCTION = re.compile(r'^(?:int|int64_t|const char\*) coxswain_(\w+)\(', re.M)
# What kernels/torch does not call, and why.
NOT_FOR_TORCH = {
    'add': 'torch adds', 'convert': 'torch converts', 'random_fill': 'torch draws by generators of its own',
    'checksum': 'torch needs none', 'checksum_tensors': 'torch needs none',
    'tensor_norms': 'torch clips by one norm', 'all_zero': 'torch compares', 'sum': 'torch sums', 'argmax': 'torch has it',
    'target_hits': 'torch compares', 'gather_rows': 'torch indexes', 'scatter_add_rows': 'torch indexes',
    'rotated_linear_forward': 'patched attention turns q and k behind its own projections',
    'dropout_apply': "torch's dropout has its own draws", 'cache_append': "generation is torch's",
    'cached_attention': "generation is torch's", 'nf4_quantize_scales': 'weights come quantised',
    'clamped_swiglu_forward': 'patched blocks have no gate of this kind', 'clamped_swiglu_backward': 'as its forward',
    'sigmoid_gate_forward': 'patched blocks have no gate of rows', 'sigmoid_gate_backward': 'as its forward',
    'grouped_lora_forward': "adapters of the patched models are peft's",
    'grouped_lora_backward': "adapters of the patched models are peft's",
    'latent_heads_forward': 'patched attention has heads of its own', 'latent_heads_backward': 'as its forward',
    'split_rows_forward': 'torch slices', 'split_rows_backward': 'torch joins',
    'lora_gated_linear_forward': "adapters of the patched models are peft's",
    'lora_gated_linear_backward': "adapters of the patched models are peft's",
    'expert_use': 'torch counts, and has the entropy of a distribution', 'balance_bias': 'torch compares and adds',
    'sum_documents': 'torch sums', 'document_loss': "preference losses of the patched models are their trainer's",
    'policy_loss': "policy losses of the patched models are their trainer's",
    'score_head_forward': 'torch has linears', 'score_head_backward': 'as its forward',
    'score_loss': "losses of scores of the patched models are their trainer's",
    'fp8_quantize': "training in FP8 is the engine's", 'fp8_gemm': 'as fp8_quantize', 'fp8_turn': 'as fp8_quantize',
    'grouped_fp8_linear': 'as fp8_quantize', 'fp8_stride': 'as fp8_quantize', 'fp8_scales': 'as fp8_quantize',
    'adamw_8bit': 'its states are those of bitsandbytes, which has the optimizer for torch',
}


def read(*patterns):
    text = []
    for path in sorted(p for pattern in patterns for p in glob.glob(os.path.join(ROOT, pattern))):
        with open(path, encoding='utf-8') as f:
            text.append(f.read())
    return '\n'.join(text)


def c_name(op):
    words = re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '_', op).lower()
    return NAMES.get(op, words)


def missing_functions(headers, declared):
    """headers: {name: text}; declared: the functions of the C ABI."""
    for name, text in sorted(headers.items()):
        ops = LAUNCHER.findall(text) + WORKSPACE.findall(text)
        if name in NOT_OPS:
            if not ops:
                yield f'kernels/{name}: no op is in it, so it needs no reason in NOT_OPS of tests/c_abi_test.py'
            continue
        for op in ops:
            if c_name(op) not in declared:
                yield (f'kernels/{name}: {op} has no coxswain_{c_name(op)} in kernels/c_api (kernels/ADD_AN_OP.md, '
                       '"C ABI")')
    for name in sorted(NOT_OPS.keys() - headers.keys()):
        yield f'kernels/{name} is in NOT_OPS of tests/c_abi_test.py and not in kernels'


def cpu_alone():
    """The functions that kernels/cuda does not compile: their tests are of the CPU's library."""
    on_cuda = read('kernels/cuda/CMakeLists.txt')
    sources = glob.glob(os.path.join(ROOT, 'kernels/c_api/*.cc'))
    names = [os.path.basename(p) for p in sources if f'../c_api/{os.path.basename(p)}' not in on_cuda]
    return set(FUNCTION.findall(read(*(f'kernels/c_api/{name}' for name in names))))


def missing_companions(declared, defined, sources, tests, for_torch):
    on_cpu, cpu_tests = cpu_alone(), read('tests/kernels/c_api/*_test.cc')
    for name in sorted(declared):
        if name not in defined:
            yield f'coxswain_{name} is declared in kernels/c_api and defined in no kernels/c_api/*.cc'
        if f'coxswain_{name}(' not in (cpu_tests if name in on_cpu else tests):
            yield f'coxswain_{name} is called in no tests/kernels/{"" if name in on_cpu else "cuda/"}c_api/*_test.cc'
        called = re.sub('_workspace_bytes$', '', name)
        if called not in NOT_FOR_TORCH and not re.search(rf'(coxswain_{name}|LAUNCH(_LENT)?\(\s*{called})\b', for_torch):
            yield f'coxswain_{name} is called in no kernels/torch/*.cc'
    for name in sorted(NOT_FOR_TORCH.keys() - declared):
        yield f'coxswain_{name} is in NOT_FOR_TORCH of tests/c_abi_test.py and not declared in kernels/c_api'
    for name in sorted(defined - declared):
        yield f'coxswain_{name} is defined and not declared in kernels/c_api'
    for struct in sorted(set(re.findall(r'\bcoxswain_\w+_args\b', read('kernels/c_api/*.h')))):
        if struct not in sources:
            yield f'{struct} is read in no kernels/c_api/*.cc'


def main():
    headers = {os.path.basename(p): read(p) for p in glob.glob(os.path.join(ROOT, 'kernels/**/*.h'), recursive=True)
               if os.path.relpath(p, ROOT).split('/')[1] not in NO_CONTRACTS}
    declared = set(FUNCTION.findall(read('kernels/c_api/*.h')))
    sources = read('kernels/c_api/*.cc')
    tests = read('tests/kernels/cuda/c_api/*_test.cc')
    for_torch = read('kernels/torch/*.cc', 'kernels/torch/*.h')
    bad = list(missing_functions(headers, declared))
    bad += missing_companions(declared, set(FUNCTION.findall(sources)), sources, tests, for_torch)
    print('\n'.join(bad) or f'{len(declared)} functions of the C ABI cover the ops of {len(headers)} headers')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
