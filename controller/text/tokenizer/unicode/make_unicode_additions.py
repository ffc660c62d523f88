#!/usr/bin/env python3
"""Prints the rows of unicode_additions.cc: characters that the regex engine of Hugging Face tokenizers
knows and Unicode 14 does not, with their general category.

  make_unicode_additions.py      needs: Python 3.11 (Unicode 14), pip install tokenizers==0.23.3
"""
import unicodedata
from tokenizers import Regex, pre_tokenizers

assert unicodedata.unidata_version == '14.0.0'
rows = []
for category in 'LMNPS':
    split = pre_tokenizers.Split(Regex(r'\p{%s}' % category), 'removed')
    for c in range(0x110000):
        if 0xD800 <= c < 0xE000 or unicodedata.category(chr(c))[0] == category: continue
        if split.pre_tokenize_str(chr(c)): continue
        assert unicodedata.category(chr(c)) == 'Cn', hex(c)
        if rows and rows[-1][1] == c - 1 and rows[-1][2] == category: rows[-1][1] = c
        else: rows.append([c, c, category])
for low, high, category in sorted(rows): print("    {0x%X, 0x%X, '%s'}," % (low, high, category))
