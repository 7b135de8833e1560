// The environment of a person's program beyond that of every command in a box. Nothing in it is
// worth stealing.

import { modelEnvironment } from '../../../policy/box-models.ts';

/** A box has no git configuration of the person; commits are the agent's. */
export function programEnvironment(agent: string): Record<string, string> {
  const [name, email] = [`agent ${agent}`, `${agent}@agents.invalid`];
  return {
    ...modelEnvironment(),
    GIT_AUTHOR_NAME: name,
    GIT_AUTHOR_EMAIL: email,
    GIT_COMMITTER_NAME: name,
    GIT_COMMITTER_EMAIL: email,
  };
}
