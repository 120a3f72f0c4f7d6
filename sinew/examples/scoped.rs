//! A scope of fibres: fibres borrow the halves of a slice and sort them at the same time.

fn sort(numbers: &mut [u32]) {
    if numbers.len() <= 64 {
        return numbers.sort_unstable();
    }
    let middle = numbers.len() / 2;
    let (left, right) = numbers.split_at_mut(middle);
    sinew::scope(|scope| {
        scope.spawn(|| sort(left));
        sort(right);
    });
    merge(numbers, middle);
}

fn merge(numbers: &mut [u32], middle: usize) {
    let left = numbers[..middle].to_vec();
    let (mut from_left, mut from_right) = (0, middle);
    for place in 0..numbers.len() {
        let take_right =
            from_left == left.len() || (from_right < numbers.len() && numbers[from_right] < left[from_left]);
        if take_right {
            numbers[place] = numbers[from_right];
            from_right += 1;
        } else {
            numbers[place] = left[from_left];
            from_left += 1;
        }
    }
}

fn main() {
    let mut numbers: Vec<u32> = (0..1_000_000u32).map(|n| n.wrapping_mul(2_654_435_761)).collect();
    sinew::run(|| sort(&mut numbers));
    assert!(numbers.is_sorted());
    println!("{} numbers sorted", numbers.len());
}
