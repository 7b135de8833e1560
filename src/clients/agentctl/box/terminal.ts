// The person's terminal while a program in a box uses it: raw, so that each key reaches it; its
// size; and stopping together with the program, as after Ctrl-Z.
import type { AttachedProgram } from './program-client.ts';

type Size = { cols: number; rows: number };

export type Terminal = {
  size: Size;
  /** Follows the program; the function returns the terminal to the person. */
  lend(program: AttachedProgram): () => void;
};

type Streams = Pick<NodeJS.Process, 'stdin' | 'stdout'>;

const LENGTH_MAX = 65_535;
const UNSTOPPABLE_MS = 100;

/** A program gets one if all of its input and output would be one. */
export function findTerminal({ stdin, stdout }: Streams): Terminal | undefined {
  if (!stdin.isTTY || !stdout.isTTY) return undefined;
  const readSize = (): Size => ({ cols: bound(stdout.columns), rows: bound(stdout.rows) });
  return {
    size: readSize(),
    lend(program) {
      let isStopped = false;
      const resize = (): void => program.resize(readSize());
      const stop = (): void => {
        isStopped = true;
        stdin.setRawMode(false);
        // The whole job, as the key would have.
        process.kill(0, 'SIGTSTP');
        // Where no shell would continue it, the kernel stops nothing.
        setTimeout(() => isStopped && resume(), UNSTOPPABLE_MS);
      };
      const resume = (): void => {
        setRaw(stdin);
        resize();
        if (isStopped) program.signal('SIGCONT');
        isStopped = false;
      };
      setRaw(stdin);
      stdout.on('resize', resize);
      process.on('SIGCONT', resume);
      program.onStopped(stop);
      return () => {
        stdout.off('resize', resize);
        process.off('SIGCONT', resume);
        stdin.setRawMode(false);
      };
    },
  };
}

/**
 * Node leaves the ends of lines to the terminal, which would add a carriage return to those that
 * the program's own terminal has written. Without stty it stays so.
 */
function setRaw(stdin: Streams['stdin']): void {
  stdin.setRawMode(true);
  // Loaded only here: most programs of scripts have no terminal.
  const { spawnSync } = process.getBuiltinModule('node:child_process');
  spawnSync('stty', ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'] });
}

/** Some terminals say that they have no size. */
const bound = (length: number): number => Math.min(Math.max(length || 80, 1), LENGTH_MAX);
