"use strict";

const NO_ALIGNMENTS =
  "This page has no alignments of this run. “Not compared” lists files that could not be read.";
const HEATMAPS = [
  {
    kind: "runs",
    caption: "Attention of each translation: source words in columns, its words in rows.",
    read: readAlignment,
  },
  {
    kind: "forced",
    caption:
      "Attention while the reference is forced; gold links are outlined, dashed if they are only " +
      "possible (Luong 2015, Figure 7).",
    read: readForcedAlignment,
  },
];

/** A button that shows and hides the heatmaps of a sentence. */
class AlignmentPanel {
  constructor(sentence, shownRuns) {
    const hasAlignments = shownRuns.some(
      (run) => hasAlignment("runs", run, sentence) || hasAlignment("forced", run, sentence),
    );
    this.sentence = sentence;
    this.shownRuns = shownRuns;
    this.panel = make("div", { hidden: true });
    this.button = make(
      "button",
      {
        class: "plain",
        type: "button",
        "aria-expanded": "false",
        disabled: !hasAlignments,
        title: hasAlignments ? false : "this page has no alignments of this sentence",
        onclick: () => this.toggle(),
      },
      "Alignments",
    );
    if (hasAlignments && chosen.opened.has(sentence)) this.toggle();
  }

  async toggle() {
    this.panel.hidden = !this.panel.hidden;
    chosen.opened[this.panel.hidden ? "delete" : "add"](this.sentence);
    this.button.setAttribute("aria-expanded", String(!this.panel.hidden));
    if (this.panel.hidden || this.panel.firstChild) return;
    const blocks = await Promise.all(HEATMAPS.map((block) => this.makeHeatmaps(block)));
    this.panel.replaceChildren(...blocks.flat());
  }

  /** Return a caption and the heatmaps of the shown runs; nothing if the page has none of them. */
  async makeHeatmaps({ kind, caption, read }) {
    const canRead = (run) => hasAlignment(kind, run, this.sentence);
    if (!this.shownRuns.some(canRead)) return [];
    const makeOne = async (run) => {
      const { name } = runs[run];
      const reason = make("p", { class: "soft small" }, NO_ALIGNMENTS);
      const content = canRead(run) ? makeHeatmap(await read(run, this.sentence), name) : reason;
      return make("div", { "data-run": run }, make("h3", {}, name), content);
    };
    const heatmaps = await Promise.all(this.shownRuns.map(makeOne));
    return [
      make("p", { class: "soft small caption" }, caption),
      make("div", { class: "heatmaps" }, ...heatmaps),
    ];
  }
}
