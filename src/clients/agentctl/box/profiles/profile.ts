// A profile describes one kind of program for its box: how it finds the models there, and what of
// it makes no sense in a box. Each is data, in a file of its own.

/** The models in every box, as in src/policy/box-models.ts; a test keeps them equal. */
export const MODEL_URL = 'http://127.0.0.1:3129';

export type Profile = {
  name: string;
  about: string;
  /** Names that people type for it. */
  commands: readonly string[];
  /** The npm package, and the version that the tests run. */
  package?: { name: string; version: string };
  /** Added to what every program gets; an empty value takes a variable away from it. */
  env: Readonly<Record<string, string>>;
  /** Written below the box's home, where there is none yet. */
  homeFiles: readonly { path: string; content: string }[];
  /** Hosts of its vendor that it tries and does not need. */
  needlessHosts: readonly string[];
  /** The words for one rehearsed round without a person: an edit of a file and a command. */
  round?: (prompt: string) => readonly string[];
  /** The words for another round in the session of the last one. */
  nextRound?: (prompt: string) => readonly string[];
};
