"""Sentences of Markdown documents, and how easily they are read."""

import re

SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9`…])")
ITEM = re.compile(r"^ *(-|\d+\.) ")
VOWELS = re.compile(r"[aeiouy]+")


def sentences(markdown: str) -> list[str]:
    """Return the sentences of paragraphs and list items, without code, tables, headings and HTML."""
    text = re.sub(r"^( *)```.*?^\1```$", "", markdown, flags=re.M | re.S)
    text = re.sub(r"</?[a-z][^>]*>|<!--.*?-->|!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\$?`+[^`]+`+\$?", "Code", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("*", "")
    blocks = [""]
    for line in text.splitlines():
        is_item = ITEM.match(line)
        is_table_or_heading = line.startswith(("|", "#"))
        if not line.strip() or is_item or is_table_or_heading:
            blocks.append("")
        is_code = line.startswith("    ") and not blocks[-1] and not is_item
        if not is_code and not is_table_or_heading:
            blocks[-1] = f"{blocks[-1]} {ITEM.sub('', line).strip()}".strip()
    return [sentence for block in blocks if block for sentence in SENTENCE_END.split(block)]


def words(sentence: str) -> list[str]:
    """Return the words and numbers of a sentence."""
    return re.findall(r"[^\W_][\w’'.-]*", sentence)


def reading_ease(markdown: str) -> float:
    """Return Flesch's reading ease: about 60 to 70 is plain English, below 50 is difficult."""
    found = sentences(markdown)
    all_words = [word for sentence in found for word in words(sentence)]
    syllables = sum(map(count_syllables, all_words))
    return 206.835 - 1.015 * len(all_words) / len(found) - 84.6 * syllables / len(all_words)


def count_syllables(word: str) -> int:
    """Count groups of vowels; a silent e at the end is none."""
    word = re.sub(r"(?<=[^aeiouyl])e$|(?<=[^aeioutd])ed$|(?<=[^aeiouyscxz])es$", "", word.lower())
    return max(1, len(VOWELS.findall(word)))
