// Writes output: lines for people, one document per line with --json. Knows whether standard output
// is a terminal, its width, and whether it takes colours.
import type { CommandEnv } from './env.ts';

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';
export type Paint = (style: Style, text: string) => string;

const SGR: Record<Style, string> = {
  bold: '1',
  dim: '2',
  red: '31',
  green: '32',
  yellow: '33',
  cyan: '36',
};

export const paintNothing: Paint = (_, text) => text;
export const paintSgr: Paint = (style, text) =>
  text === '' ? '' : `\u001b[${SGR[style]}m${text}\u001b[0m`;

export type Out = {
  json: boolean;
  terminal: boolean;
  /** Infinity for a pipe or file. */
  columns: number;
  paint: Paint;
  write(text: string): void;
  writeLine(text?: string): void;
  /** Progress, on standard error; nothing with --json. */
  info(text: string): void;
  printJson(value: unknown): void;
  /** The document with --json, the lines for people otherwise. */
  print(value: unknown, lines: () => readonly string[]): void;
};

/** DEL, C1 and direction controls, which JSON.stringify does not escape. */
const TERMINAL_CONTROLS = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** The value is unchanged; characters that a terminal would obey are escaped. */
export const toJsonText = (value: unknown): string =>
  JSON.stringify(value).replace(
    TERMINAL_CONTROLS,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

export function makeOut(json: boolean, env: CommandEnv): Out {
  const terminal = process.getBuiltinModule('node:tty').isatty(1);
  const colours = terminal && (env.NO_COLOR ?? '') === '' && env.TERM !== 'dumb';
  const line = (text = ''): void => writeOut(`${text}\n`);
  const document = (value: unknown): void => line(toJsonText(value));
  return {
    json,
    terminal,
    columns: terminal ? process.stdout.columns || 80 : Number.POSITIVE_INFINITY,
    paint: colours && !json ? paintSgr : paintNothing,
    write: writeOut,
    writeLine: line,
    info(text) {
      if (!json) process.stderr.write(`${text}\n`);
    },
    printJson: document,
    print(value, lines) {
      if (json) document(value);
      else
        writeOut(
          lines()
            .map((text) => `${text}\n`)
            .join(''),
        );
    },
  };
}

/** Writes to the descriptor: creating process.stdout takes 3 ms. */
export function writeOut(data: string | Uint8Array): void {
  const { writeSync } = process.getBuiltinModule('node:fs');
  let remaining: Uint8Array = typeof data === 'string' ? Buffer.from(data) : data;
  while (remaining.length > 0) {
    try {
      remaining = remaining.subarray(writeSync(1, remaining));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // `agentctl task list | head` is no error; on a full non-blocking pipe, wait.
      if (code === 'EPIPE') process.exit(0);
      if (code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}
