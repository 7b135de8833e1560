// The words for the runtime itself: starting, stopping, looking after it.
import type { Command } from '../command.ts';

export const runtimeCommands: readonly Command[] = [
  {
    path: ['up'],
    help: 'start the runtime; comes back when it is ready and says which model answers',
    options: [
      { name: 'split', help: 'one process per daemon' },
      { name: 'foreground', help: 'stay here and show the log; Ctrl-C stops the runtime' },
      { name: 'port', value: 'N', kind: 'count', help: 'also listen on this port of 127.0.0.1' },
      {
        name: 'agents',
        value: 'DIR',
        completes: 'directory',
        help: 'agent manifests (default: the starter team)',
      },
      { name: 'config', value: 'FILE', completes: 'file', help: 'configuration (agentd.yaml)' },
    ],
    load: async () => (await import('../commands/up.ts')).up,
  },
  {
    path: ['down'],
    help: 'stop the runtime; work in hand is finished or kept for the next start',
    load: async () => (await import('../commands/down.ts')).down,
  },
  {
    path: ['status'],
    help: 'what runs, what waits, what was spent today, what is wrong',
    load: async () => (await import('../commands/status.ts')).status,
  },
  {
    path: ['doctor'],
    help: 'try out what this installation needs, and say what is not protected',
    load: async () => (await import('../commands/doctor.ts')).doctor,
  },
  {
    path: ['version'],
    help: 'the version of this program and of the runtime',
    load: async () => (await import('../commands/version.ts')).version,
  },
  {
    path: ['completion'],
    positionals: [{ name: 'SHELL', completes: ['bash', 'zsh', 'fish'] }],
    help: 'print the completion script for bash, zsh or fish',
    details: [
      'bash: agentctl completion bash > ~/.local/share/bash-completion/completions/agentctl',
      'zsh:  agentctl completion zsh > _agentctl, in a directory of your $fpath',
      'fish: agentctl completion fish > ~/.config/fish/completions/agentctl.fish',
    ],
    load: async () => (await import('../commands/completion.ts')).completion,
  },
  {
    path: ['halt'],
    options: [{ name: 'reason', value: 'TEXT', help: 'why, for the record' }],
    help: 'stop every agent now; `touch STATE/HALT` does the same without the daemons',
    load: async () => (await import('../commands/halt.ts')).halt,
  },
  {
    path: ['unhalt'],
    help: 'let agents work again',
    load: async () => (await import('../commands/halt.ts')).unhalt,
  },
];
