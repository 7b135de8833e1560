// The environment variables that commands read; main.ts passes them in.
export type CommandEnv = Readonly<Record<string, string | undefined>>;
