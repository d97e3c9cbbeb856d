import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Writes a WAV file that holds `source` after `leadSeconds` of silence, for a fake microphone: it begins to play as soon as
 * the microphone opens.
 *
 * @throws when the source is not plain 16-bit mono PCM
 */
export function withLeadingSilence(source: string, target: string, leadSeconds: number): void {
  const wav = readFileSync(source);
  const chunks = new Map<string, Buffer>();
  for (let at = 12; at + 8 <= wav.length;) {
    const size = wav.readUInt32LE(at + 4);
    chunks.set(wav.toString("latin1", at, at + 4), wav.subarray(at + 8, at + 8 + size));
    at += 8 + size + (size % 2);
  }
  const format = chunks.get("fmt ");
  const speech = chunks.get("data");
  if (format?.readUInt16LE(0) !== 1 || format.readUInt16LE(2) !== 1 || format.readUInt16LE(14) !== 16 || !speech) {
    throw new Error(`${source} is not a 16-bit mono WAV file`);
  }
  const samples = Buffer.concat([Buffer.alloc(Math.round(leadSeconds * format.readUInt32LE(4)) * 2), speech]);
  const header = Buffer.alloc(44);
  header.write("RIFF", 0, "latin1");
  header.writeUInt32LE(36 + samples.length, 4);
  header.write("WAVEfmt ", 8, "latin1");
  header.writeUInt32LE(16, 16);
  format.copy(header, 20, 0, 16);
  header.write("data", 36, "latin1");
  header.writeUInt32LE(samples.length, 40);
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(target, Buffer.concat([header, samples]));
}
