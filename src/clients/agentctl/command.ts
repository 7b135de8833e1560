// What a command is: its words, its options and how it is loaded. The table of all commands, the
// parser, --help and completion share these types; what a command does is in commands/.
import type { CommandEnv } from './env.ts';
import type { Out } from './out.ts';
import type { RuntimeClient } from './runtime.ts';

/** What may stand at a place, for completion. */
export type Completes =
  | 'agent'
  | 'task'
  | 'question'
  | 'tool'
  | 'model'
  | 'artifact'
  | 'call'
  | 'context'
  | 'approval'
  | 'permit'
  | 'person'
  | 'file'
  | 'directory'
  | readonly string[];

export type Positional = { name: string; optional?: true; completes?: Completes };

export type Option = {
  name: string;
  short?: string;
  /** The word for its value in --help; absent for a flag. */
  value?: string;
  kind?: 'text' | 'count' | 'priority' | 'usd' | 'duration';
  many?: true;
  /** The most that it may be, of a count. */
  most?: number;
  required?: true;
  completes?: Completes;
  /** Nothing else than what completes it. */
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
  /** The runtime of this state directory; throws runtime_down when none is known. */
  runtime(): RuntimeClient;
};

/** Gives the exit status; nothing means 0. */
// biome-ignore lint/suspicious/noConfusingVoidType: most commands have only one way to end well
export type CommandHandler = (session: Session) => Promise<number | void>;

export type Command = {
  path: readonly string[];
  positionals?: readonly Positional[];
  options?: readonly Option[];
  help: string;
  /** More lines for its own --help. */
  details?: readonly string[];
  load(): Promise<CommandHandler>;
};
