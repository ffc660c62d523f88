#!/usr/bin/env python3
"""Prints the rows of late_characters.cc (normalization) and of kLatePunctuation in pre_tokenizer.cc: characters that
libraries here know and those of Hugging Face tokenizers do not, whose tables are older.

  make_late_characters.py      needs: Python 3.11 (Unicode 14), libutf8proc 2.8 (Unicode 15), tokenizers==0.23.3
"""
import ctypes, unicodedata
from tokenizers import normalizers, pre_tokenizers

assert unicodedata.unidata_version == '14.0.0'


class Property(ctypes.Structure):
    _fields_ = [(n, t) for n, t in (('category', ctypes.c_int16), ('combining', ctypes.c_int16), ('bidi', ctypes.c_int16),
                                    ('decomposition_type', ctypes.c_int16), ('decomposition', ctypes.c_uint16))]


utf8proc = ctypes.CDLL('libutf8proc.so.2')
utf8proc.utf8proc_get_property.restype = ctypes.POINTER(Property)
nfd, nfkd, punctuation = normalizers.NFD(), normalizers.NFKD(), pre_tokenizers.Punctuation('removed')
PROBES = ['a\u0345%s\u0334', 'a%s\u0334', 'a\u0301%s\u0301', 'a\u05b0%s', 'a\u302a%s']  # marks of several classes around it


def is_late(c):
    s = chr(c)
    p = utf8proc.utf8proc_get_property(c).contents
    if unicodedata.category(s) == 'Cn': return p.combining != 0 or p.decomposition != 0xFFFF
    return c == 0x11930 or nfkd.normalize_str(s) != unicodedata.normalize('NFKD', s) or any(  # U+11935 and U+11930 compose
        nfd.normalize_str(t % s) != unicodedata.normalize('NFD', t % s) for t in PROBES)


def ranges(which):
    rows = []
    for c in range(0x300, 0x110000):
        if 0xD800 <= c < 0xE000 or not which(c): continue
        if rows and rows[-1][1] == c - 1: rows[-1][1] = c
        else: rows.append([c, c])
    return rows


for low, high in ranges(is_late): print('    {0x%X, 0x%X},' % (low, high))
print(''.join(r'\x{%X}' % low + (r'-\x{%X}' % high if high > low else '') for low, high in ranges(
    lambda c: unicodedata.category(chr(c))[0] == 'P' and punctuation.pre_tokenize_str(chr(c)))))
