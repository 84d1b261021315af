"""Check a heatmap of either web page: mouse, keyboard and screen reader."""

import re


class Heatmap:
    """One heatmap and its readout, both inside `place`."""

    def __init__(self, page, place):
        self.page, self.place, self.readout = page, place, place.locator(".readout")
        self.heads, self.words = place.locator(".heatmap thead th"), place.locator(".heatmap tbody th")
        self.source, self.target = self.heads.all_text_contents(), self.words.all_text_contents()

    def is_at_rest(self) -> bool:
        marked = self.place.locator("th.highlighted").count()
        return self.readout.inner_text() == "01 · point at a word or a square" and not marked

    def describes_word(self, row: int, number: str, likely: str) -> bool:
        """Check that the readout names a target word and the source words it attends to most."""
        attended = rf"(?: [←·] (?:{'|'.join(map(re.escape, self.source))}) {number}){{1,3}}"
        return bool(re.fullmatch(re.escape(self.target[row]) + attended + likely, self.readout.inner_text()))


def check_reading(page, place, *, digits: int, probable: bool) -> None:
    heatmap, number = Heatmap(page, place), rf"[01]\.\d{{{digits}}}"
    _check_names(heatmap)
    _check_keys(heatmap, number, f" · probability {number}" if probable else "")
    _check_pointing(heatmap, number)


def _check_names(heatmap: Heatmap) -> None:
    assert heatmap.is_at_rest()
    assert heatmap.readout.get_attribute("aria-live") == "polite"
    titles = [word.get_attribute("title") for word in (*heatmap.heads.all(), *heatmap.words.all())]
    assert titles == [*heatmap.source, *heatmap.target]
    name = heatmap.place.locator(".scroll[role=group]").get_attribute("aria-label")
    assert name.startswith("Attention of ")
    assert heatmap.place.locator("caption").text_content().startswith(f"{name}: ")


def _check_keys(heatmap: Heatmap, number: str, likely: str) -> None:
    """Tab moves from word to word; the readout of a word disappears with the focus."""
    heatmap.place.locator(".scroll").focus()
    for row in range(len(heatmap.target)):
        heatmap.page.keyboard.press("Tab")
        assert heatmap.words.nth(row).evaluate("word => word === document.activeElement")
        assert heatmap.describes_word(row, number, likely)
    heatmap.page.keyboard.press("Tab")
    assert heatmap.is_at_rest()


def _check_pointing(heatmap: Heatmap, number: str) -> None:
    row, column = len(heatmap.target) - 1, len(heatmap.source) // 2
    square = heatmap.place.locator(".heatmap tbody tr").nth(row).locator("td").nth(column)
    square.hover()
    words = f"{re.escape(heatmap.target[row])} ← {re.escape(heatmap.source[column])}"
    match = re.fullmatch(rf"{words} ({number})", heatmap.readout.inner_text())
    assert abs(float(match[1]) - float(square.text_content())) < 0.0051
    assert heatmap.place.locator("th.highlighted").all_text_contents() == [heatmap.source[column]]
    heatmap.page.mouse.move(0, 0)
    assert heatmap.is_at_rest()
