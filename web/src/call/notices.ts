import { ApiError } from "../api.js";
import type { Notice } from "./model.js";

/** The server's reason is a clause: "the caller was silent". */
export function reasonText(reason: string): string {
  return reason === "" ? "The call has ended." : `The call has ended: ${reason.replace(/\.$/, "")}.`;
}

export const silentPageNotice: Notice = {
  tone: "warning",
  title: "Your browser blocks sound",
  text: "Allow sound for this page in the site settings beside the address, then call again.",
};

export const noMediaNotice: Notice = {
  tone: "error",
  title: "No sound gets through",
  text: "The server answered, but audio can’t reach it. A firewall or VPN may block UDP: try another network.",
};

export function lostNotice(connected: boolean): Notice {
  return connected
    ? {
        tone: "error",
        title: "The call broke off",
        text: "The connection to the agent was lost. What was said is kept below; you can call again.",
      }
    : noMediaNotice;
}

export function failureNotice(error: unknown): Notice {
  if (error instanceof ApiError) {
    switch (error.kind) {
      case "busy":
        return { tone: "warning", title: "All lines are busy", text: `${error.message} Try again in a moment.` };
      case "unreachable":
        return {
          tone: "error",
          title: "The server can’t be reached",
          text: `${error.message} Check that it is running and that you are online, then call again.`,
        };
      default:
        return { tone: "error", title: "The call was refused", text: error.message };
    }
  }
  const text = error instanceof Error ? error.message : String(error);
  return { tone: "error", title: "The call couldn’t be set up", text: `Your browser reported: ${text}` };
}
