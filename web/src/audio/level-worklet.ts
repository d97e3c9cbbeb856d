import { LevelFramer, type LevelFrame } from "./level-framer.js";

// What the AudioWorkletGlobalScope offers; TypeScript's DOM library leaves it out.
declare const sampleRate: number;
declare const currentTime: number;
declare abstract class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, processor: new () => AudioWorkletProcessor): void;

/** 33 messages a second keep a meter fluent without crowding the page's thread. */
const framesPerMessage = 3;

/** Input 0 is the microphone, input 1 is the agent. Posts `LevelFrame[]`; its output stays silent. */
class LevelProcessor extends AudioWorkletProcessor {
  private readonly framer = new LevelFramer(sampleRate);
  private batch: LevelFrame[] = [];

  process(inputs: Float32Array[][], outputs: Float32Array[][]): boolean {
    const length = outputs[0]?.[0]?.length ?? 128;
    const caller = inputs[0]?.[0] ?? null;
    const agent = inputs[1]?.[0] ?? null;
    this.batch.push(...this.framer.push(currentTime, length, caller, agent));
    if (this.batch.length >= framesPerMessage) {
      this.port.postMessage(this.batch);
      this.batch = [];
    }
    return true;
  }
}

registerProcessor("levels", LevelProcessor);
