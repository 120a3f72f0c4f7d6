#![doc = include_str!("../README.md")]

mod case;
mod experiments;
mod kernel;
mod measure;
mod peers;

fn main() {
    let case: case::Case = serde_json::from_str(&std::env::args().nth(1).expect("a case")).expect("a case");
    let experiment = experiments::find(&case.experiment).expect("an experiment");
    let _ = kernel::pin_to(0..case.processors);
    println!("{}", serde_json::to_string(&(experiment.measure)(&case)).unwrap());
}
