import type { ServerInfo } from "./contract.js";

/**
 * - `unreachable`: no answer at all
 * - `unauthorized`: 401, a token is needed or wrong
 * - `busy`: 503, every line is taken or the server isn't ready
 * - `missing`: 404
 * - `rejected`: any other refusal
 */
export type ApiErrorKind = "unreachable" | "unauthorized" | "busy" | "missing" | "rejected";

export class ApiError extends Error {
  constructor(
    readonly kind: ApiErrorKind,
    message: string,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

export interface Answer {
  sdp: string;
  type: "answer";
  call_id: string;
}

const tokenKey = "voice-agent-token";
const timeoutMs = 15_000;

/** The calls process's HTTP interface. Addresses are relative to the page, which may be served below a path. */
export class Api {
  get hasToken(): boolean {
    return sessionStorage.getItem(tokenKey) !== null;
  }

  setToken(token: string): void {
    sessionStorage.setItem(tokenKey, token);
  }

  forgetToken(): void {
    sessionStorage.removeItem(tokenKey);
  }

  recordUrl(callId: string): string {
    return `api/calls/${encodeURIComponent(callId)}`;
  }

  info(): Promise<ServerInfo> {
    return this.request("GET", "api/info") as Promise<ServerInfo>;
  }

  offer(description: RTCSessionDescriptionInit): Promise<Answer> {
    return this.request("POST", "api/offer", { sdp: description.sdp, type: description.type }) as Promise<Answer>;
  }

  record(callId: string): Promise<unknown> {
    return this.request("GET", this.recordUrl(callId));
  }

  /** Ends a call even while the page is being left; the server may know already, so no answer is awaited. */
  hangUp(callId: string): void {
    fetch(this.recordUrl(callId), { method: "DELETE", headers: this.headers(), keepalive: true }).catch(() => {
      // The closed peer connection ends the call as well; there is nobody left to tell.
    });
  }

  private headers(): Record<string, string> {
    const token = sessionStorage.getItem(tokenKey);
    return token === null ? {} : { Authorization: `Bearer ${token}` };
  }

  private async request(method: string, url: string, body?: unknown): Promise<unknown> {
    let response: Response;
    try {
      response = await fetch(url, {
        method,
        headers: { ...this.headers(), ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
        body: body === undefined ? null : JSON.stringify(body),
        signal: AbortSignal.timeout(timeoutMs),
      });
    } catch (error) {
      const slow = error instanceof DOMException && error.name === "TimeoutError";
      throw new ApiError("unreachable", slow ? "The server took too long to answer." : "The server can’t be reached.");
    }
    const answer: unknown = await response.json().catch(() => null);
    if (response.ok && answer !== null) return answer;
    throw new ApiError(kindOf(response.status), messageOf(answer) ?? `The server answered ${response.status}.`);
  }
}

function kindOf(status: number): ApiErrorKind {
  if (status === 401) return "unauthorized";
  if (status === 404) return "missing";
  // A proxy in front of a server that is down says 502 or 504.
  if (status === 502 || status === 504) return "unreachable";
  return status === 503 ? "busy" : "rejected";
}

/** Our errors are `{"error": {"code", "message"}}`. */
function messageOf(answer: unknown): string | null {
  const message = (answer as { error?: { message?: unknown } } | null)?.error?.message;
  return typeof message === "string" && message !== "" ? message : null;
}
