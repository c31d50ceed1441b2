// What a person hears and feels. Each outcome has its own tune and its own beat; what is seen is in the style sheet.

const TUNES = { // [hertz, seconds] one after the other
  recorded: [[1320, 0.09]],
  counted: [[1320, 0.09]],
  surplus: [[880, 0.09], [660, 0.14]],
  queued: [[990, 0.07]],
  again: [[880, 0.07], [0, 0.05], [880, 0.07]],
  location: [[660, 0.07], [880, 0.07], [1180, 0.1]],
  unclear: [[1180, 0.07], [880, 0.07], [440, 0.3]],
  unknown: [[520, 0.14], [780, 0.14], [520, 0.18]],
  refused: [[170, 0.5]],
  undone: [[880, 0.08], [590, 0.12]],
  tick: [[1800, 0.015]],
};
const BEATS = {
  recorded: [70],
  counted: [70],
  surplus: [60, 60, 160],
  queued: [40],
  again: [40, 70, 40],
  location: [120],
  unclear: [120, 60, 300],
  unknown: [180, 90, 180],
  refused: [600],
  undone: [30, 40, 30],
};

// Before the tune and the beat of an outcome: the server disagrees with what was signalled by the device's copy.
const CORRECTION = { tune: [[260, 0.07], [0, 0.03], [260, 0.07], [0, 0.06]], beat: [40, 30, 40, 30, 40, 120] };

let audio;
export const isMuted = () => localStorage.getItem("edge-muted") === "1";
export const setMuted = (muted) => localStorage.setItem("edge-muted", muted ? "1" : "0");

export function signal(outcome, isCorrection = false) {
  const { tune, beat } = isCorrection ? CORRECTION : { tune: [], beat: [] };
  navigator.vibrate?.([...beat, ...(BEATS[outcome] || [])]);
  if (!isMuted()) play([...tune, ...(TUNES[outcome] || [])]);
}

/** New tags of a sweep. */
export function tick() {
  if (!isMuted()) play(TUNES.tick);
}

function play(tune) {
  const Audio = window.AudioContext || window.webkitAudioContext;
  if (!Audio || !tune.length) return;
  audio = audio || new Audio();
  if (audio.state === "suspended") audio.resume(); // before the first touch or key it stays silent
  let at = audio.currentTime + 0.01;
  for (const [hertz, seconds] of tune) {
    if (hertz) beep(hertz, at, seconds);
    at += seconds;
  }
}

function beep(hertz, at, seconds) {
  const tone = audio.createOscillator();
  const volume = audio.createGain();
  tone.type = hertz < 300 ? "sawtooth" : "square";
  tone.frequency.value = hertz;
  volume.gain.setValueAtTime(0.25, at);
  volume.gain.exponentialRampToValueAtTime(0.001, at + seconds);
  tone.connect(volume).connect(audio.destination);
  tone.start(at);
  tone.stop(at + seconds);
}

/** Keeps the screen on where the browser allows it (https). */
export function keepAwake() {
  const ask = () => document.hidden || navigator.wakeLock && navigator.wakeLock.request("screen").catch(() => {});
  ask();
  document.addEventListener("visibilitychange", ask);
}
