"""A long text as documents to pretrain on: two JSON Lines files, one of them held back."""
import gzip, hashlib, json, os, re

import runs

DICTIONARY = os.path.join(runs.ROOT, '.carry', 'gcide.dict.dz')  # Debian's package dict-gcide: GPL-2 or later
QUICKSTART = os.path.join(runs.ROOT, 'deploy', 'quickstart', 'train.jsonl')
LETTERS = 24000  # of a document, at least: some 7,000 tokens
HELD_BACK = 40  # every so many documents one is held back
# Which edition a paragraph of the dictionary is from: 200,000 times the same words, one letter in ten.
EDITION = re.compile(r'\s*\[(?:1913 Webster|WordNet|Webster 1913|PJC)[^\[\]]*\]$')


def paragraphs(path):
    """Those of a text file, gzipped or not, between empty lines and each on one line; of JSON Lines the records' values."""
    with (gzip.open if path.endswith(('.dz', '.gz')) else open)(path, 'rt', encoding='utf-8', errors='replace') as file:
        text = file.read()
    parts = (' '.join(json.loads(line).values()) for line in text.splitlines()) if path.endswith('.jsonl') else \
        re.split(r'\n\s*\n', text)
    found = (EDITION.sub('', ' '.join(part.split())) for part in parts)
    return [paragraph for paragraph in found if paragraph]


def documents(of, letters):
    """Neighbouring paragraphs as one document each time that they have so many letters, and what is left."""
    found, now, size = [], [], 0
    for paragraph in of:
        now.append(paragraph)
        size += len(paragraph)
        if size >= letters:
            found.append('\n'.join(now))
            now, size = [], 0
    return found + ['\n'.join(now)] * bool(now)


def write(path, folder, letters=LETTERS):
    """Writes train.jsonl and held_back.jsonl into the folder; what they are made of."""
    every = documents(paragraphs(path), letters)
    parts = {'held_back': every[HELD_BACK // 2::HELD_BACK] or every[-1:]}
    kept = set(parts['held_back'])
    parts['train'] = [document for document in every if document not in kept]
    for name, of in parts.items():
        with open(os.path.join(folder, f'{name}.jsonl'), 'w', encoding='utf-8') as file:
            file.writelines(json.dumps({'text': document}) + '\n' for document in of)
    with open(path, 'rb') as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    return {'file': os.path.basename(path), 'sha256': digest,
            'letters': {name: sum(map(len, of)) for name, of in parts.items()}}
