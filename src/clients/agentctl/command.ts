// Types of a command table entry: positionals, options, and how its handler is loaded. The parser,
// --help and completion share them.
import type { CommandEnv } from './env.ts';
import type { Out } from './out.ts';
import type { RuntimeClient } from './runtime.ts';

export type Completes =
  | 'agent'
  | 'task'
  | 'question'
  | 'tool'
  | 'model'
  | 'artifact'
  | 'call'
  | 'event'
  | 'context'
  | 'approval'
  | 'permit'
  | 'memory'
  | 'person'
  | 'key'
  | 'file'
  | 'directory'
  | readonly string[];

/** `many`: the last one, which takes all further words. */
export type Positional = {
  name: string;
  optional?: true;
  many?: true;
  completes?: Completes;
};

export type Option = {
  name: string;
  short?: string;
  /** Its metavar in --help; absent for a flag. */
  value?: string;
  kind?: 'text' | 'count' | 'priority' | 'usd' | 'duration';
  many?: true;
  /** The maximum of a count. */
  most?: number;
  required?: true;
  completes?: Completes;
  /** Accepts only the values in `completes`. */
  only?: true;
  help: string;
};

export type Args = {
  positionals: readonly string[];
  flag(name: string): boolean;
  text(name: string): string | undefined;
  number(name: string): number | undefined;
  list(name: string): readonly string[];
};

export type Session = {
  args: Args;
  out: Out;
  stateDir: string;
  env: CommandEnv;
  /** The runtime of this state directory; throws runtime_down when it is not running. */
  runtime(): RuntimeClient;
};

/** Resolves to the exit status; void means 0. */
// biome-ignore lint/suspicious/noConfusingVoidType: most commands have no exit status of their own
export type CommandHandler = (session: Session) => Promise<number | void>;

export type Command = {
  path: readonly string[];
  positionals?: readonly Positional[];
  options?: readonly Option[];
  help: string;
  details?: readonly string[];
  load(): Promise<CommandHandler>;
};

/** Returns the command under a second name. */
export const makeAlias = (command: Command, ...path: string[]): Command => ({
  ...command,
  path,
  help: `same as: agentctl ${command.path.join(' ')}`,
});
