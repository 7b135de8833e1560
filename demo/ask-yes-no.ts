// A question that is answered with yes or no at a terminal.
import { createInterface } from 'node:readline/promises';

type TerminalStreams = {
  input: NodeJS.ReadableStream;
  output: NodeJS.WritableStream;
  terminal?: boolean;
};

/** Asks until it is answered; undefined when somebody presses Ctrl-C or Ctrl-D instead. */
export async function askYesNo(
  question: string,
  terminal: TerminalStreams,
): Promise<boolean | undefined> {
  const lines = createInterface(terminal);
  const ask = (prompt: string): void => {
    lines.setPrompt(prompt);
    lines.prompt();
  };
  lines.on('SIGINT', () => lines.close());
  ask(`${question} [y/n] `);
  try {
    // Not by question(): what is typed before it asks again would be lost.
    for await (const line of lines) {
      const answer = line.trim();
      if (/^(y|yes)$/i.test(answer)) return true;
      if (/^(n|no)$/i.test(answer)) return false;
      ask('Please answer y or n: ');
    }
    return undefined;
  } finally {
    lines.close();
  }
}
