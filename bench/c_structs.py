"""The structs of the C ABI as ctypes structures, read from kernels/c_api/*.h: their fields stand nowhere else.

A pointer is a c_void_p, a field with extents an array of it, a workspace the fields workspace and workspace_bytes.
"""
import ctypes, glob, os, re

HEADERS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'kernels', 'c_api', '*.h')
TYPES = {'uint8_t': ctypes.c_uint8, 'int32_t': ctypes.c_int32, 'uint32_t': ctypes.c_uint32, 'int64_t': ctypes.c_int64,
         'float': ctypes.c_float, 'double': ctypes.c_double}
STRUCT = re.compile(r'typedef struct \{(.*?)\} coxswain_(\w+);', re.S)
DECLARATION = re.compile(r'(?:const )?(\w+)\s*(.*)', re.S)
DECLARATOR = re.compile(r'(\*?)\s*(\w+)(?:\[(\d+)\])?')


def _text():
    texts = []
    for path in sorted(glob.glob(HEADERS)):
        with open(path, encoding='utf-8') as f:
            texts.append(re.sub(r'/\*.*?\*/', '', f.read(), flags=re.S))
    return '\n'.join(texts)


def _fields(body, known):
    for declaration in filter(None, (d.strip() for d in body.split(';'))):
        kind, declarators = DECLARATION.fullmatch(declaration).groups()
        if kind == 'coxswain_workspace':
            yield from (('workspace', ctypes.c_void_p), ('workspace_bytes', ctypes.c_int64))
            continue
        for declarator in declarators.replace('* ', '*').split(','):
            star, name, extent = DECLARATOR.fullmatch(declarator.strip()).groups()
            of = ctypes.c_void_p if star else TYPES.get(kind) or known[kind.removeprefix('coxswain_')]
            yield name, of * int(extent) if extent else of


def structs():
    """{name without coxswain_: structure}."""
    known = {}
    for body, name in STRUCT.findall(_text()):
        known[name] = type(name, (ctypes.Structure,), {'_fields_': list(_fields(body, known))})
    return known


def functions():
    """{name without coxswain_: type that it returns}."""
    returned = {'int': ctypes.c_int, 'int64_t': ctypes.c_int64, 'const char*': ctypes.c_char_p}
    found = re.findall(r'^(int|int64_t|const char\*) coxswain_(\w+)\(', _text(), re.M)
    return {name: returned[kind] for kind, name in found}
