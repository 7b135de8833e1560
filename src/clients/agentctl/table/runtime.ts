// Commands for the runtime itself.
import type { Command } from '../command.ts';

export const runtimeCommands: readonly Command[] = [
  {
    path: ['up'],
    help: 'start the runtime; returns when it is ready and says which model responds',
    options: [
      { name: 'split', help: 'one process per daemon' },
      {
        name: 'foreground',
        help: 'stay and show the log; Ctrl-C stops the runtime, and a crash ends this command',
      },
      {
        name: 'restarts',
        value: 'N',
        kind: 'count',
        most: 100,
        help: 'after a crash, restart up to N times in ten minutes (default: 10)',
      },
      { name: 'no-restart', help: 'after a crash, stay down until the next agentctl up' },
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
    help: 'stop the runtime; unfinished work resumes at the next start',
    load: async () => (await import('../commands/down.ts')).down,
  },
  {
    path: ['status'],
    help: 'show daemons, tasks, pending approvals, spend today and problems',
    load: async () => (await import('../commands/status.ts')).status,
  },
  {
    path: ['doctor'],
    help: 'check this installation, and list what is not protected',
    load: async () => (await import('../commands/doctor.ts')).doctor,
  },
  {
    path: ['version'],
    help: 'show the version of agentctl and of the runtime',
    load: async () => (await import('../commands/version.ts')).version,
  },
  {
    path: ['completion'],
    positionals: [{ name: 'SHELL', completes: ['bash', 'zsh', 'fish'] }],
    help: 'print a completion script for bash, zsh or fish',
    details: [
      'bash: agentctl completion bash > ~/.local/share/bash-completion/completions/agentctl',
      'zsh:  agentctl completion zsh > _agentctl, in a directory of your $fpath',
      'fish: agentctl completion fish > ~/.config/fish/completions/agentctl.fish',
    ],
    load: async () => (await import('../commands/completion.ts')).completion,
  },
  {
    path: ['halt'],
    options: [{ name: 'reason', value: 'TEXT', help: 'reason, for the record' }],
    help: 'stop every agent now; `touch STATE/HALT` does the same without the daemons',
    load: async () => (await import('../commands/halt.ts')).halt,
  },
  {
    path: ['unhalt'],
    help: 'lift the halt, so that agents resume',
    load: async () => (await import('../commands/halt.ts')).unhalt,
  },
];
