// What a tool may do inside the box of its run. sandboxd holds the box; how it is reached is not
// known here.

export type FileKind = 'file' | 'directory' | 'symlink' | 'other';
export type FileFacts = { kind: FileKind; sizeBytes: number; mtimeMs: number };

export type BoxFiles = {
  stat(path: string): Promise<FileFacts>;
  /** At most `lengthBytes` from `offset`; `sha256` is of the whole file when all of it was read. */
  read(
    path: string,
    range?: { offset?: number; lengthBytes?: number },
  ): Promise<{ bytes: Buffer; sizeBytes: number; sha256?: string }>;
  /** Whole files only, all or nothing. `expected` refuses when the file is not what was read. */
  write(
    path: string,
    bytes: Buffer,
    options?: { createOnly?: boolean; expectedSha256?: string },
  ): Promise<{ created: boolean; sha256: string }>;
  list(
    path: string,
    page?: { after?: string; limit?: number },
  ): Promise<{ entries: ({ name: string } & FileFacts)[]; more: boolean }>;
  search(
    path: string,
    query: { text: string; regex?: boolean; glob?: string; limit?: number },
  ): Promise<{ matches: { path: string; line: number; text: string }[]; truncated: boolean }>;
  remove(path: string, options?: { recursive?: boolean }): Promise<{ removed: number }>;
  makeDirectory(path: string): Promise<void>;
};

export type ExecRequest = {
  argv: readonly string[];
  cwd?: string;
  env?: Readonly<Record<string, string>>;
  stdin?: Buffer;
  wallMs?: number;
  outputBytesMax?: number;
  signal?: AbortSignal;
};

export type ExecResult = {
  exitCode: number | null;
  signal: string | null;
  /** Which limit ended it; null when it ended by itself. */
  endedBy: 'wall' | 'output' | 'cpu' | 'memory' | 'pids' | 'killed' | 'halt' | null;
  stdout: Buffer;
  stderr: Buffer;
  stdoutTruncated: boolean;
  stderrTruncated: boolean;
  wallMs: number;
};

export type Box = {
  /** Where things are, as the box shows them. */
  roots: { workspace: string; home: string };
  files: BoxFiles;
  exec(request: ExecRequest): Promise<ExecResult>;
};
