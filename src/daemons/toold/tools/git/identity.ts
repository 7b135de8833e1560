// Who an agent is to git, as the environment of its commands.
import type { ToolContext } from '../tool.ts';

/**
 * A box has no git configuration of a person, and that of a repository must not make an agent's
 * commit look like a person's: the environment takes precedence over both.
 */
export function buildGitIdentity({ agent, persona }: Pick<ToolContext, 'agent' | 'persona'>) {
  const name = `${agent} (${persona ?? 'agent'})`;
  const email = `${agent}@agents.invalid`;
  return {
    GIT_AUTHOR_NAME: name,
    GIT_AUTHOR_EMAIL: email,
    GIT_COMMITTER_NAME: name,
    GIT_COMMITTER_EMAIL: email,
  };
}
