// Passes the compressed content of an archive to a command's standard input. The command has stored
// it if its exit status is 0.
import { spawn } from 'node:child_process';
import { type ArchiveTarget, compressTo } from '../../../platform/audit-archive/directory.ts';
import { fault } from '../../../wire/errors.ts';

export function commandTarget(command: string): ArchiveTarget {
  return {
    location: `command: ${command}`.slice(0, 1_000),
    async store(name, content) {
      const env = { ...process.env, AGENTD_ARCHIVE_NAME: name };
      // Its output goes to standard error: standard output is agentctl's own.
      const child = spawn('/bin/sh', ['-c', command], { env, stdio: ['pipe', 2, 2] });
      const ended = new Promise<string | undefined>((settle, reject) => {
        child.once('error', reject);
        child.once('close', (code, signal) =>
          settle(code === 0 ? undefined : `ended with ${signal ?? `status ${code}`}`),
        );
      });
      const [written, end] = await Promise.allSettled([compressTo(content, child.stdin!), ended]);
      if (end.status === 'rejected') throw end.reason;
      const problem =
        end.value ?? (written.status === 'rejected' ? 'did not read all of its input' : undefined);
      if (problem !== undefined || written.status === 'rejected')
        throw fault('conflict', `the archive command ${problem}`, {
          hint: 'The segment was not removed. Correct the command, then archive again.',
        });
      return { location: this.location, name, ...written.value };
    },
  };
}
