import type { MicrophonePermission, MicrophoneProblem } from "../call/microphone.js";

export interface Help {
  title: string;
  text: string;
  /** Whether asking again can succeed without a reload or another address. */
  canRetry: boolean;
}

/** What to tell a caller whose microphone can't be used. */
export function microphoneHelp(problem: MicrophoneProblem): Help {
  switch (problem) {
    case "denied":
      return {
        title: "The microphone is blocked",
        text: "Open the site settings with the icon left of the address, set Microphone to Allow, then try again. On a phone, also check the system settings of the browser.",
        canRetry: true,
      };
    case "no-device":
      return {
        title: "No microphone was found",
        text: "Plug one in or switch on your headset, then try again.",
        canRetry: true,
      };
    case "busy":
      return {
        title: "The microphone is in use",
        text: "Another program holds it, perhaps a meeting. Close that program, then try again.",
        canRetry: true,
      };
    case "insecure":
      return {
        title: "This address can’t use the microphone",
        text: "Browsers allow it on https:// addresses and on http://localhost only. Open this page at such an address.",
        canRetry: false,
      };
    case "failed":
      return {
        title: "The microphone can’t be opened",
        text: "Your browser gave no reason. Check the microphone in the system settings, then try again.",
        canRetry: true,
      };
  }
}

/** The line below the call button before a call. */
export function permissionHint(permission: MicrophonePermission): string {
  switch (permission) {
    case "granted":
      return "Your microphone is ready.";
    case "denied":
      return "The microphone is blocked for this page.";
    case "insecure":
      return "This address can’t use the microphone.";
    case "prompt":
    case "unknown":
      return "Your browser will ask for the microphone.";
  }
}
