// Asks a yes/no question on a terminal.
import { createInterface } from 'node:readline/promises';

type TerminalStreams = {
  input: NodeJS.ReadableStream;
  output: NodeJS.WritableStream;
  terminal?: boolean;
};

/** Repeats the question until the answer is valid. Resolves to undefined on Ctrl-C or Ctrl-D. */
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
    // question() would lose lines that are typed before it is called again.
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
