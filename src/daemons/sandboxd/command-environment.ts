// Gives every command in a box its base environment and resolves its program.
import { TOOL_BIN } from './adapters/host-paths.ts';

/** The kernel searches no PATH: a plain name is resolved in the box by env. */
export function resolveProgram(argv: readonly string[]): string[] {
  return argv[0]!.startsWith('/') ? [...argv] : ['/usr/bin/env', '--', ...argv];
}

export function baseEnv(agent: string, home: string): Record<string, string> {
  return {
    PATH: `/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:${TOOL_BIN}`,
    HOME: home,
    USER: `agent-${agent}`,
    LOGNAME: `agent-${agent}`,
    LANG: 'C.UTF-8',
    TMPDIR: '/tmp',
    TERM: 'dumb',
  };
}
