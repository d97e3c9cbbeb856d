/**
 * Splits an agent's caption that was cut by a barge-in after the last word heard.
 *
 * The server takes `heard` from the timing of the words; spaces and case may differ from the caption's. Words are compared
 * one by one, so a caption is never cut inside a word.
 *
 * @returns `[heard, unheard]`, which together are `text`
 */
export function splitAtHeard(text: string, heard: string): [string, string] {
  const heardWords = heard.split(/\s+/).filter((word) => word !== "");
  let end = 0;
  let index = 0;
  for (const match of text.matchAll(/\S+/g)) {
    const expected = heardWords[index];
    if (expected === undefined || plain(match[0]) !== plain(expected)) break;
    index++;
    end = match.index + match[0].length;
  }
  return [text.slice(0, end), text.slice(end)];
}

/** Letters and digits alone, so that "table," matches "table"; a word of signs only stays as it is. */
function plain(word: string): string {
  const stripped = word.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");
  return stripped === "" ? word : stripped;
}
