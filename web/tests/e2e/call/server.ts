import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { join, resolve } from "node:path";

const root = resolve(import.meta.dirname, "../../../..");
const binaries = process.env.VOICE_AGENT_BIN ?? join(root, ".venv/bin");

/** Loading and warming three models takes 10 to 30 s on two idle cores. */
const readyWithinMs = 150_000;
const stopWithinMs = 15_000;

/** A Tuesday, so that "friday" is three days away whenever the test runs. */
const today = "2026-12-01";

/** `voice-agent serve` with the embedded model, on a free port, its data in a folder of its own. */
export class VoiceAgent {
  private output = "";
  private readonly process: ChildProcess;

  private constructor(
    readonly url: string,
    port: number,
    folder: string,
  ) {
    this.process = spawn(join(binaries, "voice-agent"), ["serve", "--host", "127.0.0.1", "--port", String(port)], {
      cwd: root,
      detached: true, // a process group of its own: all of it is stopped
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...process.env,
        VOICE_AGENT_DATABASE: join(folder, "bookings.sqlite"),
        VOICE_AGENT_RECORD_DIR: join(folder, "records"),
        VOICE_AGENT_TODAY: today,
      },
    });
    for (const stream of [this.process.stdout, this.process.stderr]) {
      stream?.on("data", (data: Buffer) => (this.output += data.toString()));
    }
  }

  /** @throws when the server ends or isn't ready in time; the message holds the end of its output */
  static async start(folder: string): Promise<VoiceAgent> {
    const port = await freePort();
    const agent = new VoiceAgent(`http://127.0.0.1:${port}/`, port, folder);
    const deadline = Date.now() + readyWithinMs;
    while (!(await agent.ready())) {
      if (agent.process.exitCode !== null) throw new Error(`voice-agent ended:\n${agent.tail()}`);
      if (Date.now() > deadline) {
        await agent.stop();
        throw new Error(`voice-agent was not ready in time:\n${agent.tail()}`);
      }
      await new Promise((done) => setTimeout(done, 250));
    }
    return agent;
  }

  async liveCalls(): Promise<number> {
    const response = await fetch(new URL("health", this.url));
    return ((await response.json()) as { live_calls: number }).live_calls;
  }

  tail(): string {
    return this.output.split("\n").slice(-40).join("\n");
  }

  async stop(): Promise<void> {
    const { pid } = this.process;
    if (pid === undefined || this.process.exitCode !== null) return;
    const ended = once(this.process, "exit");
    process.kill(pid, "SIGTERM");
    const timer = setTimeout(() => process.kill(-pid, "SIGKILL"), stopWithinMs);
    await ended;
    clearTimeout(timer);
  }

  private async ready(): Promise<boolean> {
    const response = await fetch(new URL("health", this.url)).catch(() => null);
    return response?.ok === true;
  }
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  return port;
}

/** The times at which the restaurant opens and closes on a weekday, as the agent says them. */
export function spokenHours(weekday: string): string[] {
  const script = [
    "import json, sys",
    "from voice_agent.agents.front_desk import facts, speech",
    "services = facts.load().opening_hours[sys.argv[1]]",
    "print(json.dumps([speech.clock(minute) for s in services for minute in (s.opens, s.closes)]))",
  ].join("\n");
  const output = execFileSync(join(binaries, "python"), ["-c", script, weekday], { cwd: root, encoding: "utf8" });
  return JSON.parse(output) as string[];
}
